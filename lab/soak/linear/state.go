package linear

import (
	"fmt"
	"slices"
)

// state is the state of a name in the model. In the zero state nobody has ever held the name.
type state struct {
	writer  int64   // 0 means no writer
	readers []int64 // in order
	fence   uint64  // the greatest fence that was reported so far
}

func (s state) reads(id int64) bool { return slices.Contains(s.readers, id) }

func (s state) holds(id int64) bool { return s.writer == id || s.reads(id) }

func (s state) equal(o state) bool {
	return s.writer == o.writer && s.fence == o.fence && slices.Equal(s.readers, o.readers)
}

func (s state) without(id int64) state {
	if s.writer == id {
		s.writer = 0
	}
	s.readers = slices.DeleteFunc(slices.Clone(s.readers), func(x int64) bool { return x == id })
	return s
}

func (s state) with(id int64, shared bool) state {
	if !shared {
		s.writer = id
		return s
	}
	if !s.reads(id) {
		s.readers = append(slices.Clone(s.readers), id)
		slices.Sort(s.readers)
	}
	return s
}

func (s state) String() string {
	return fmt.Sprintf("writer %x, readers %x, fence %d", s.writer, s.readers, s.fence)
}

// action is the effect of an operation on a name.
type action int

const (
	grant   action = iota // a new hold
	adopt                 // a new hold in place of another
	promote               // from reader to writer
	demote                // from writer to reader
	verify                // changes nothing
	release               // a confirmed release
	expire                // may happen at any time, without a call
	weaken                // a demotion whose outcome is unknown; it may happen at any time
)

var actionNames = [...]string{"grant", "adopt", "promote", "demote", "verify", "release", "expire", "weaken"}

// op is an operation on a name for one hold.
type op struct {
	action    action
	hold      int64
	other     int64 // for adopt: the hold that is replaced
	shared    bool
	fence     uint64
	prevFence uint64 // the next smaller fence in the same piece of the history; 0 if there is none
	regrant   bool   // other holders may get the lock during the conversion
}

func (o op) String() string {
	mode := "exclusive"
	if o.shared {
		mode = "shared"
	}
	return fmt.Sprintf("%s %x (%s, fence %d)", actionNames[o.action], o.hold, mode, o.fence)
}

// minted reports whether a store in state s may grant o with the fence of o. Fences ascend, and the
// latest one is s.fence. So s.fence must be o.prevFence. A shared grant may also repeat s.fence.
func (o op) minted(s state) bool {
	return o.fence == 0 || s.fence == o.prevFence || o.shared && o.action == grant && s.fence == o.fence
}

// step is the model of a lock. It reports whether o may happen in state s, and returns the next
// state.
func (o op) step(s state) (ok bool, next state) {
	switch o.action {
	case grant:
		if ok = s.writer == 0 && (o.shared || len(s.readers) == 0) && o.minted(s); ok {
			s = s.with(o.hold, o.shared).raised(o)
		}
	case adopt:
		if ok = s.holds(o.other) && o.minted(s); ok {
			s = s.without(o.other).with(o.hold, o.shared).raised(o)
		}
	case promote:
		alone := s.without(o.hold)
		if ok = alone.writer == 0 && len(alone.readers) == 0 && o.minted(s) && (o.regrant || s.reads(o.hold)); ok {
			s = alone.with(o.hold, false).raised(o)
		}
	case demote:
		if ok = s.writer == o.hold || o.regrant && s.writer == 0; ok {
			s = s.without(o.hold).with(o.hold, true)
		}
	case verify:
		ok = s.holds(o.hold)
	case release:
		if ok = s.holds(o.hold); ok {
			s = s.without(o.hold)
		}
	case expire:
		ok, s = true, s.without(o.hold)
	case weaken:
		if ok = true; s.writer == o.hold {
			s = s.without(o.hold).with(o.hold, true)
		}
	}
	return ok, s
}

func (s state) raised(o op) state {
	s.fence = max(s.fence, o.fence)
	return s
}
