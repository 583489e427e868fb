package quorum

import (
	"context"
	"time"
)

// slot is what this process knows of a hold at one member.
type slot struct {
	turn      gate        // one request at a time, in the order in which they came
	waiting   bool        // Wait is under way
	sent      bool        // a request was sent that may have granted the hold
	before    bool        // the value of sent before the request that is under way
	has       bool        // the member confirmed the hold in its last answer
	otherMode bool        // the member may have another mode than the hold
	settling  *settlement // a release under way, or to be tried again
	given     bool        // a release was answered, or nobody knows whether it was done
	late      time.Time   // until then a request whose outcome is unknown may arrive
	demotes   time.Time   // until then a demotion whose outcome is unknown may arrive
	bound     context.Context
	stop      func() bool // stops watching bound
}

// lateRequest is how long a request may still arrive after its call has returned and left the
// outcome unknown.
const lateRequest = 500 * time.Millisecond

// sending notes that a request is sent that may grant the hold.
func (sl *slot) sending() { sl.before, sl.sent, sl.given = sl.sent, true, false }

// asked notes the answer to a request that may have granted the hold.
func (sl *slot) asked(v verdict) {
	switch v {
	case yes:
		sl.has, sl.otherMode = true, false
	case unsure, pending:
		sl.late = time.Now().Add(lateRequest)
	case held, gone:
		sl.has, sl.sent = false, sl.before
	default:
		sl.sent = sl.before
	}
}

// repeated notes the answer to a second request for a hold that was granted.
func (sl *slot) repeated(v verdict) {
	switch v {
	case held, gone:
		sl.has = false
	case unsure:
		sl.late = time.Now().Add(lateRequest)
	}
}
