package quorum

import (
	"context"
	"time"
)

// memberHold is what this process knows of a hold at one member.
type memberHold struct {
	turn          orderedMutex // lets one request at a time go to the member, in the order of arrival
	waiting       bool         // Wait is under way
	sent          bool         // a request that may have granted the hold was sent
	sentBefore    bool         // a request before the present one may have granted the hold
	has           bool         // the member confirmed the hold in its last answer
	spent         bool         // the member has refused the token, and must not be asked to grant it again
	settling      *settlement  // a release that is under way or will be repeated
	mayBeReleased bool         // a release has succeeded, or may have succeeded
	lateUntil     time.Time    // until this time, a request with an unknown outcome may still arrive
	bound         context.Context
	stop          func() bool // stops watching bound
}

// lateRequest is how long a request can stay on its way to the member after the call in this
// process has returned. This matters only if the call returned without a known outcome.
const lateRequest = 500 * time.Millisecond

// noteSending records that a request is being sent. The request may grant the hold.
func (sl *memberHold) noteSending() { sl.sentBefore, sl.sent, sl.mayBeReleased = sl.sent, true, false }

// noteAnswer records the answer to a request that may have granted the hold.
func (sl *memberHold) noteAnswer(v verdict) {
	switch v {
	case yes:
		sl.has = true
	case unsure, pending:
		sl.lateUntil = time.Now().Add(lateRequest)
	case held, gone:
		sl.has, sl.sent = false, sl.sentBefore
	default:
		sl.sent = sl.sentBefore
	}
}

// unwatch stops watching bound.
func (sl *memberHold) unwatch() {
	if sl.stop != nil {
		sl.stop()
		sl.stop, sl.bound = nil, nil
	}
}
