package httpstore

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/httpapi"
)

// answer is what a server, or something on the way to it, has answered.
type answer struct {
	status int
	body   []byte
	server string
}

// success is the body of an answer with the status 200.
type success interface {
	// complete reports whether the body has what every such answer of padlock has. Other JSON, such
	// as {}, comes from something on the way.
	complete() bool
}

// read reads the body of a successful answer.
func (a *answer) read(out success) error {
	if err := json.Unmarshal(a.body, out); err != nil || !out.complete() {
		return fmt.Errorf("%w: the answer of %s is not that of padlock serve --api", driver.ErrUncertain, a.server)
	}
	return nil
}

// problem is the body of an answer with a status from 400.
type problem struct {
	Error   string   `json:"error"`
	Detail  string   `json:"detail"`
	Holders []holder `json:"holders"`
}

// problem returns the problem that the answer reports. Its word is "" if the answer does not come
// from a server of padlock.
func (a *answer) problem() (p problem) {
	if json.Unmarshal(a.body, &p) != nil || meanings[p.Error].status != a.status {
		return problem{}
	}
	return p
}

// meaning is what an error of a server means for the caller.
type meaning struct {
	status int
	err    error
}

var meanings = map[string]meaning{
	"invalid":        {http.StatusBadRequest, driver.ErrInvalid},
	"fences_used_up": {http.StatusBadRequest, driver.ErrFencesUsedUp},
	"unauthorized":   {http.StatusUnauthorized, driver.ErrUnavailable},
	"forbidden":      {http.StatusForbidden, driver.ErrUnavailable},
	"unknown_path":   {http.StatusNotFound, driver.ErrUnavailable},
	"held":           {http.StatusConflict, driver.ErrHeld},
	"changed":        {http.StatusConflict, driver.ErrLost},
	"lost":           {http.StatusGone, driver.ErrLost},
	"expired":        {http.StatusGone, driver.ErrExpired},
	"host":           {http.StatusMisdirectedRequest, driver.ErrUnavailable},
	"too_many":       {http.StatusTooManyRequests, driver.ErrUnavailable},
	"unsupported":    {http.StatusNotImplemented, errors.ErrUnsupported},
	"unavailable":    {http.StatusServiceUnavailable, driver.ErrUnavailable},
	"closing":        {http.StatusServiceUnavailable, driver.ErrUnavailable},
	"uncertain":      {http.StatusGatewayTimeout, driver.ErrUncertain},
}

// unchanged reports whether another server may have a better answer: this one has changed nothing,
// because it is closing, or cannot reach the store.
func (a *answer) unchanged() bool {
	return a.status == http.StatusServiceUnavailable && a.problem().Error != ""
}

// err returns the error that an answer means. A status from something on the way, such as a proxy,
// means that nothing was done only if the proxy has refused the request.
func (a *answer) err() error {
	p := a.problem()
	switch {
	case p.Error == "held":
		return heldError(p.Holders)
	case p.Error != "":
		return fmt.Errorf("%w: %s: %s", meanings[p.Error].err, a.server, p.Detail)
	case a.status >= 300 && a.status < 500 && a.status != http.StatusRequestTimeout && a.status != http.StatusConflict && a.status != http.StatusGone:
		return fmt.Errorf("%w: %s answers %d %s; it is no server of padlock serve --api, or refuses this client", driver.ErrUnavailable, a.server, a.status, http.StatusText(a.status))
	}
	return fmt.Errorf("%w: %s answers %d %s", driver.ErrUncertain, a.server, a.status, http.StatusText(a.status))
}

// holder is one hold.
type holder = httpapi.Holder

// longestAnswer is more than any time that a server of padlock answers with.
const longestAnswer = 1000 * time.Hour

// duration returns a time of an answer. A time that a Duration cannot have is cut.
func duration(ms int64) time.Duration {
	const most = int64(longestAnswer / time.Millisecond)
	return time.Duration(max(-most, min(ms, most))) * time.Millisecond
}

func holds(from []holder) (all []driver.Hold) {
	now := time.Now()
	for _, h := range from {
		hold := driver.Hold{Holder: driver.Holder{Host: h.Host, PID: h.PID, Label: h.Label}, Shared: h.Shared, Foreign: h.Foreign, Cooling: h.Cooling}
		if h.SinceMS != nil {
			hold.Since = now.Add(-duration(*h.SinceMS))
		}
		if h.UntilMS != nil {
			hold.Until = now.Add(duration(*h.UntilMS))
		}
		all = append(all, hold)
	}
	return all
}

// maxShown is how many holders an answer has at most.
const maxShown = 100

// heldError returns the refusal of a try. A server counts neither the callers that wait in it nor
// those in other servers, so the number of waiters is unknown.
func heldError(from []holder) error {
	e := &driver.HeldError{Holds: holds(from), Waiters: -1}
	for _, h := range e.Holds {
		if h.Until.IsZero() || len(e.Holds) >= maxShown {
			e.Until = time.Time{}
			break
		}
		if h.Until.After(e.Until) {
			e.Until = h.Until
		}
	}
	return e
}

// process names the process of a holder, or the command of this one.
func process(h *driver.Holder) string {
	if h.Host == "" {
		return filepath.Base(os.Args[0])
	}
	return h.Host + "/" + strconv.Itoa(h.PID)
}
