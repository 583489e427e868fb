package sqlstore

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/storekit/decide"
)

// A state is a copy of everything that the tables say about one name. An operation of the store
// reads this copy, decides what to change in it, and writes it back. If somebody else has changed
// the row meanwhile, the operation starts again. So the decisions are the same for every database,
// and each of them sees one consistent state.
//
// Package decide decides about the lock. This package decides about the queue: whose turn it is,
// and for whom the name is reserved. All times are microseconds since 1970 by the server's clock.
type state struct {
	decide.State
	version int64   // of the row in the table; 0 if there is no row
	queue   []place // in order of arrival
	// free is when the name became free for the first waiter in the queue. It is 0 if that waiter
	// cannot take the name yet.
	free decide.Time
	// cleared is the fence of the name when LockTx last found it free. No transaction had the name
	// then. If the fence is still the same, nobody has got the name since, and so no transaction
	// that has called CheckTx has written anything since.
	cleared uint64
}

// A place is the entry of one waiter in the queue. The waiter has to renew its place from time to
// time. A place that was not renewed lapses: it no longer counts, and it is removed later.
type place struct {
	Token   opaque        `json:"t"`
	Shared  bool          `json:"s,omitempty"`
	Above   uint64        `json:"a,omitempty"` // Request.FenceAbove
	Push    bool          `json:"p,omitempty"` // if true, the database wakes the waiter, and the name may be reserved for it; if false, the waiter polls
	Channel string        `json:"c,omitempty"` // the channel on which the database wakes the waiter
	Until   decide.Time   `json:"u"`
	Holder  driver.Holder `json:"h"`
}

// newPlace makes a place for r. push is the channel on which the database wakes the waiter, or "".
func newPlace(r *driver.Request, push string, until decide.Time) place {
	return place{opaque(r.Token.Text()), r.Shared, r.FenceAbove, push != "", push, until, r.Holder}
}

// A reservation is a message to a waiter. It says that the name is now reserved for that waiter,
// which has to claim the name. There is a second kind of message, with the fence 0. It only asks
// the waiter to look at the name, and reserves nothing.
type reservation struct {
	to    address // the waiter that gets the message
	fence uint64

	// next is the waiter behind the receiver of this message in the queue, or the zero address. If
	// the receiver does not claim the reservation in time, that waiter has to look at the name.
	next address
}

// An address says how to wake a waiter. A waiter of this process is found by its token. A waiter of
// another process is notified through the database, on its channel. A waiter without one polls.
type address struct {
	token   opaque
	channel string
}

func (p *place) address() address { return address{p.Token, p.Channel} }

// The type opaque is for tokens. A token may contain bytes that a JSON string cannot contain, so
// tokens are written to JSON in base64.
type opaque string

func (o opaque) MarshalText() ([]byte, error) {
	return base64.RawStdEncoding.AppendEncode(nil, []byte(o)), nil
}

func (o *opaque) UnmarshalText(text []byte) error {
	b, err := base64.RawStdEncoding.DecodeString(string(text))
	*o = opaque(b)
	return err
}

// placeFor is how long a waiter keeps its place without renewing it.
const placeFor = 40 * time.Second

// hash returns a text that identifies the token without revealing it.
func (o opaque) hash() string {
	sum := sha256.Sum256([]byte(o))
	return hex.EncodeToString(sum[:12])
}
