package soak

import (
	"time"

	"github.com/padlock-go/padlock/internal/safety"
)

// toldWithin is how soon a holder that looks learns of a question: it looks once a second, and a
// request of a busy machine may take a second.
const toldWithin = int64(2 * time.Second)

// questions checks I14.
func (c *checker) questions() {
	asked := map[int64]Event{}
	for _, e := range c.events {
		if e.Op == Questioning {
			asked[e.Other] = e
		}
	}
	looking := map[string]map[uint64]*looker{} // by name and fence
	for _, h := range c.holds {
		l := lookerOf(h)
		if l == nil {
			continue
		}
		if looking[h.Name] == nil {
			looking[h.Name] = map[uint64]*looker{}
		}
		looking[h.Name][l.fence] = l
		if l.told != nil {
			c.told(l, asked)
		}
	}
	for i := range c.events {
		if e := &c.events[i]; e.Op == Questioned && e.Err == "" {
			if l := looking[e.Name][e.Fence]; l != nil {
				c.mustBeTold(l, e)
			}
		}
	}
}

// looker is a hold whose worker looks for questions.
type looker struct {
	*Hold
	fence uint64
	since int64
	told  *Event // nil if it was told of no question
}

func lookerOf(h *Hold) (l *looker) {
	for i := range h.Events {
		switch e := &h.Events[i]; {
		case e.Op == Looks:
			l = &looker{h, h.Events[0].Fence, e.At, nil}
		case e.Op == Told && l != nil:
			l.told = e
		}
	}
	return l
}

// told checks the question that a holder was told of.
func (c *checker) told(l *looker, asked map[int64]Event) {
	e := l.told
	if q, known := asked[e.Other]; e.Other != 0 && (!known || q.Name != l.Name || q.At > e.At) {
		c.say("I14", e.At, l.Name, "hold %x was told of the question %x, which nobody has asked", l.ID, e.Other)
	}
	err := safety.FenceKeeps(e.Fence, l.fence)
	if inside := len(l.Spans) > 0 && e.At < l.Spans[0].To; err == nil && inside && !l.Events[0].Shared {
		err = safety.FenceKeeps(l.fence, e.Fence)
	}
	if err != nil {
		c.say("I14", e.At, l.Name, "hold %x was told of a question to another holder: %v", l.ID, err)
	}
	if l.Lost != 0 && l.Lost < l.Until && l.Cause == "lost" && !c.disturbed(e.At, l.Lost) {
		c.say("I14", l.Lost, l.Name, "hold %x was lost %v after the question", l.ID, time.Duration(l.Lost-e.At))
	}
}

// mustBeTold checks that the holder to whom the question e was asked learns of it in time.
func (c *checker) mustBeTold(l *looker, e *Event) {
	if len(l.Spans) == 0 || l.Events[0].Shared {
		return
	}
	begun := max(e.At, l.since)
	late := begun + toldWithin + c.stoodStill(l.Worker, begun, begun+toldWithin)
	if l.Spans[0].To <= late || l.told != nil && l.told.At <= late || c.disturbed(begun, late) {
		return
	}
	c.say("I14", late, l.Name, "hold %x was not told within %v of the question %x", l.ID, time.Duration(toldWithin), e.Other)
}
