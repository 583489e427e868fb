package padlockhttp

import (
	"encoding/json"
	"errors"
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/padlock-go/padlock"
)

// Refuse answers a request that did not get its lock. err is an error of Locker.Acquire or
// Locker.TryAcquire. The answer is problem details (RFC 9457), and names neither the lock nor its
// holder:
//
//	409 Conflict             the lock is held, or too many requests wait for it
//	400 Bad Request          the name of the lock, or an option, is invalid
//	503 Service Unavailable  the lock store cannot be reached, or the wait ended with the request
//	500                      any other error, such as padlock.ErrAlreadyHeld
//
// With 409 and 503, Retry-After says when a repeat may succeed: at the planned end of the hold or
// cool-down if that is known, else after a second.
func Refuse(w http.ResponseWriter, err error) {
	p := problemOf(err)
	var held *padlock.HeldError
	switch {
	case errors.As(err, &held):
		p.retry = held.RetryAfter(time.Second)
	case p.Status == http.StatusConflict, p.Status == http.StatusServiceUnavailable:
		p.retry = time.Second
	}
	p.write(w)
}

func problemOf(err error) problem {
	switch {
	case errors.Is(err, padlock.ErrHeld), errors.Is(err, padlock.ErrTooManyWaiters):
		return problem{Status: http.StatusConflict, Detail: "Another request is at work on the same thing. Repeat this request later."}
	case errors.Is(err, padlock.ErrInvalid):
		return problem{Status: http.StatusBadRequest, Detail: "The request names something that cannot be locked."}
	case errors.Is(err, padlock.ErrAlreadyHeld), errors.Is(err, errors.ErrUnsupported):
		return problem{Status: http.StatusInternalServerError, Detail: "The server cannot lock what the request names."}
	}
	return problem{Status: http.StatusServiceUnavailable, Detail: "The server could not take a lock. Nothing was done. Repeat this request later."}
}

// refuseLost answers a request whose lock was lost during the work.
func refuseLost(w http.ResponseWriter) {
	problem{Status: http.StatusInternalServerError, Detail: "The server lost its lock during the work, which may be done in part."}.write(w)
}

// isLoss reports whether an error of Release says that the work was not protected to its end.
func isLoss(err error) bool {
	return errors.Is(err, padlock.ErrLost) || errors.Is(err, padlock.ErrExpired) || errors.Is(err, padlock.ErrMaxHold)
}

// A problem is an answer as RFC 9457 describes it. Its type is about:blank.
type problem struct {
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail,omitempty"`

	retry time.Duration // the header Retry-After; 0: none
}

// write sends the problem. Headers of another answer that the handler has prepared are removed.
func (p problem) write(w http.ResponseWriter) {
	if p.Title == "" {
		p.Title = http.StatusText(p.Status)
	}
	h := w.Header()
	for _, name := range []string{"Content-Encoding", "Content-Length", "Etag", "Last-Modified"} {
		h.Del(name)
	}
	h.Set("Content-Type", "application/problem+json")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	if p.retry > 0 {
		h.Set("Retry-After", strconv.Itoa(max(1, int(math.Ceil(p.retry.Seconds())))))
	}
	w.WriteHeader(p.Status)
	_ = json.NewEncoder(w).Encode(p) // a client that has gone needs no answer
}
