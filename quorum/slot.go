package quorum

import (
	"context"
	"time"
)

// slot is a hold at one member.
type slot struct {
	turn     gate        // one request at a time, in the order in which they came
	waiting  bool        // Wait is under way
	sent     bool        // a request was sent that may have granted something
	before   bool        // sent, before the request under way
	has      bool        // the member confirmed the hold when it was last heard
	odd      bool        // perhaps in another mode than the hold
	settling *settlement // a release under way, or to be tried again
	given    bool        // back, perhaps: a release was answered, or its fate is not known
	late     time.Time   // until then a request may arrive whose fate is not known
	demotes  time.Time   // until then a demotion may arrive whose fate is not known
	bound    context.Context
	stop     func() bool // stops watching bound
}

// lateRequest is how long after its call has returned a request of
// unknown fate may still arrive.
const lateRequest = 500 * time.Millisecond

// sending notes a request that may grant something.
func (sl *slot) sending() { sl.before, sl.sent, sl.given = sl.sent, true, false }

// asked notes the answer to a request that may have granted something.
func (sl *slot) asked(v verdict) {
	switch v {
	case yes:
		sl.has, sl.odd = true, false
	case unsure, pending:
		sl.late = time.Now().Add(lateRequest)
	case held, gone:
		sl.has, sl.sent = false, sl.before
	default:
		sl.sent = sl.before
	}
}

// repeated notes the answer to a second request for what was granted.
func (sl *slot) repeated(v verdict) {
	switch v {
	case held, gone:
		sl.has = false
	case unsure:
		sl.late = time.Now().Add(lateRequest)
	}
}
