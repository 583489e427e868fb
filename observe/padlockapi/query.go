package padlockapi

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/driver/fast"
)

// query is one request of a client.
type query struct {
	*requestBody
	api    *API
	op     *operation
	r      *http.Request
	rw     http.ResponseWriter
	at     driver.Instant // when the request came
	who    Visitor
	from   string // the address of the client
	client string // whose limits count the request: the name of the visitor, or the address
	where  *tenant
}

func (q *query) waitID() waitID { return newWaitID(q.where.prefix, q.name, q.token) }

// elapsed returns how long the server has had the request.
func (q *query) elapsed() time.Duration { return q.api.clock.Now().Sub(q.at) }

// note counts a lock that the visitor has from now on. The slot is -1 if the lock is no permit.
func (q *query) note(until driver.Instant, slot int) {
	q.api.ledger.note(q.client, q.waitID(), q.api.clock.Now(), entry{until, slot})
}

// patience is how long the requests to the store may take for one request of a client, together
// with the end of an earlier wait. They are not interrupted when the client goes: the fewer
// outcomes are unknown, the better.
const patience = 20 * time.Second

func (q *query) patient() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(q.r.Context()), patience)
}

// storedName returns the name under which the store keeps the lock. A permit has a name of its own.
func (q *query) storedName() (string, error) {
	if !q.has("slot") {
		return q.name, nil
	}
	if q.slot >= fast.MaxSlots {
		return "", fmt.Errorf("%w: slot must be 0 to %d", padlock.ErrInvalid, fast.MaxSlots-1)
	}
	return fast.SlotName(q.name, int(q.slot)), nil
}
