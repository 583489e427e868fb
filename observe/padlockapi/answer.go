package padlockapi

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/driver/fast"
	"github.com/padlock-go/padlock/internal/httpapi"
)

// reply is a status and the JSON that goes with it. The zero reply of a check means that the
// request goes on.
type reply struct {
	status int
	json   any
}

// granted is the answer to acquire.
type granted struct {
	Token   string `json:"token"`
	Fence   uint64 `json:"fence"`
	ValidMS int64  `json:"valid_ms"`
	Slot    *int   `json:"slot,omitempty"`
	Shared  bool   `json:"shared,omitempty"`
}

// waiting is the answer to acquire if the wait goes on.
type waiting struct {
	Token   string `json:"token"`
	RetryMS int64  `json:"retry_ms"`
}

// extended is the answer to extend.
type extended struct {
	ValidMS int64 `json:"valid_ms"`
	Shared  bool  `json:"shared,omitempty"`
}

// released is the answer to release.
type released struct {
	Outcome string `json:"outcome"`
}

// broken is the answer to break.
type broken struct {
	Fence uint64 `json:"fence"`
}

// state is the answer to status, and a part of that to list.
type state struct {
	Name       string   `json:"name"`
	NameBase64 string   `json:"name_base64,omitempty"`
	Slot       *int     `json:"slot,omitempty"`
	Held       bool     `json:"held"`
	Fence      uint64   `json:"fence"`
	Waiters    int      `json:"waiters"`
	Holders    []holder `json:"holders"`
	Asked      *asked   `json:"asked,omitempty"`
}

// list is the answer to list.
type list struct {
	Locks   []state `json:"locks"`
	LeftOut int     `json:"left_out"`
}

// holder is one hold.
type holder = httpapi.Holder

// asked is the question to the holder of a name.
type asked = httpapi.Asked

// question is the answer to ask.
type question struct {
	Asked   asked `json:"asked"`
	Earlier bool  `json:"earlier"`
}

// problem is every answer with a status from 400, in the format of RFC 9457.
type problem struct {
	Error   string   `json:"error"`
	Title   string   `json:"title"`
	Status  int      `json:"status"`
	Detail  string   `json:"detail,omitempty"`
	RetryMS *int64   `json:"retry_ms,omitempty"`
	Holders []holder `json:"holders,omitempty"`
	Waiters *int     `json:"waiters,omitempty"`
}

// failed is a problem until the log has its cause.
type failed struct {
	problem
	cause error
}

func refuse(status int, word, detail string) reply {
	return reply{status, problem{Error: word, Title: http.StatusText(status), Status: status, Detail: detail}}
}

func refuseUntil(status int, word, detail string, retry time.Duration) reply {
	ms := retry.Milliseconds()
	return reply{status, problem{Error: word, Title: http.StatusText(status), Status: status, Detail: detail, RetryMS: &ms}}
}

// failure returns the answer for an error of the Locker or the store. Errors of the store may have
// its address or the names of others, so only those about the request itself are repeated.
//
// ErrUncertain comes first: a token that may have the lock is never reported as refused.
func failure(err error) reply {
	var held *driver.HeldError
	switch {
	case errors.Is(err, padlock.ErrUncertain):
		return refuseUntil(http.StatusGatewayTimeout, "uncertain", "it is not known whether the store has carried this out; send the same request again", time.Second/5)
	case errors.As(err, &held):
		return refuseHeld(held)
	case errors.Is(err, padlock.ErrClosed):
		return refuseWait(errClosing)
	case errors.Is(err, padlock.ErrTooManyWaiters):
		return refuseUntil(http.StatusTooManyRequests, "too_many", "too many callers wait", time.Second)
	case errors.Is(err, padlock.ErrLost):
		return refuse(http.StatusGone, "lost", "the token has no lock: it was released, broken or taken by another client; make a new token")
	case errors.Is(err, padlock.ErrExpired):
		return refuse(http.StatusGone, "expired", "the lease ran out; nobody has taken the lock since")
	case errors.Is(err, driver.ErrFencesUsedUp):
		return refuse(http.StatusBadRequest, "fences_used_up", invalidity(err))
	case errors.Is(err, padlock.ErrInvalid):
		return refuse(http.StatusBadRequest, "invalid", invalidity(err))
	case errors.Is(err, errors.ErrUnsupported):
		return refuse(http.StatusNotImplemented, "unsupported", "this store cannot do that")
	}
	r := refuseUntil(http.StatusServiceUnavailable, "unavailable", "the store does not answer, or grants nothing yet, as the log of this server says; nothing was changed; send the same request again", time.Second)
	return reply{r.status, failed{r.json.(problem), err}}
}

// refuseWait returns the answer for the error of a wait.
func refuseWait(err error) reply {
	switch {
	case errors.Is(err, errClosing):
		return refuseUntil(http.StatusServiceUnavailable, "closing", "this server is closing; send the same request to another one", time.Second)
	case errors.Is(err, errTooMany):
		return refuseUntil(http.StatusTooManyRequests, "too_many", "too many requests of this visitor wait", time.Second)
	case errors.Is(err, errOtherMode):
		return refuse(http.StatusBadRequest, "invalid", err.Error())
	case errors.Is(err, errGivenUp), errors.Is(err, errGraceOver):
		return refuse(http.StatusGone, "lost", "another request with this token has given up the wait; make a new token")
	}
	return failure(err)
}

// invalidity returns the text of an ErrInvalid without the operation and the name, which the client
// knows. The name may have the prefix of a tenant.
func invalidity(err error) string {
	var of *padlock.Error
	if errors.As(err, &of) {
		err = of.Err
	}
	return err.Error()
}

func refuseHeld(held *driver.HeldError) reply {
	retry := held.RetryAfter(time.Second).Milliseconds()
	return reply{http.StatusConflict, problem{
		Error: "held", Title: "Held", Status: http.StatusConflict, Detail: "another client has the lock; make a new token for the next try",
		RetryMS: &retry, Holders: holders(held.Holds), Waiters: &held.Waiters,
	}}
}

// maxShown is how many holders an answer has.
const maxShown = 100

func holders(holds []driver.Hold) []holder {
	list := make([]holder, 0, min(len(holds), maxShown))
	for _, h := range holds[:min(len(holds), maxShown)] {
		shown := holder{Host: h.Host, PID: h.PID, Label: h.Label, Shared: h.Shared, Foreign: h.Foreign, Cooling: h.Cooling}
		if !h.Since.IsZero() {
			ms := time.Since(h.Since).Milliseconds()
			shown.SinceMS = &ms
		}
		if !h.Until.IsZero() {
			ms := time.Until(h.Until).Milliseconds()
			shown.UntilMS = &ms
		}
		list = append(list, shown)
	}
	return list
}

// stateOf returns the state of a name as the answer shows it. A name that is not text has its bytes
// in base64 too.
func stateOf(s padlock.State) state {
	out := state{Name: s.Name, Fence: s.Fence, Waiters: s.Waiters, Holders: holders(s.Holds)}
	if name, slot, ok := fast.SplitSlot(s.Name); ok && slot >= 0 {
		out.Name, out.Slot = name, &slot
	}
	if !utf8.ValidString(out.Name) {
		out.NameBase64 = base64.StdEncoding.EncodeToString([]byte(out.Name))
	}
	out.Held = slices.ContainsFunc(s.Holds, func(h driver.Hold) bool { return !h.Cooling })
	return out
}

// write sends the reply.
func (r reply) write(rw http.ResponseWriter) {
	if r.status == 0 { // net/http would send 200, which a client takes for a lock
		r = failure(padlock.ErrUncertain)
	}
	kind := "application/json"
	if r.status >= http.StatusBadRequest {
		kind = "application/problem+json"
	}
	text, err := json.Marshal(r.json)
	if err != nil { // there is no value that JSON cannot have
		r.status, text = http.StatusInternalServerError, []byte("{}")
	}
	rw.Header().Set("Content-Type", kind)
	if r.status == http.StatusUnauthorized {
		rw.Header().Set("WWW-Authenticate", `Bearer realm="padlock"`)
	}
	rw.WriteHeader(r.status)
	rw.Write(append(text, '\n'))
}
