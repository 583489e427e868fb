package padlock

import "github.com/padlock-go/padlock/driver"

// schedule is a heap of holds, ordered by the time at which the renewer looks at each hold next.
// Each hold knows its index. Each entry has up to four children. Each entry has the time of its
// hold, because reading a hold from memory is slow: with 100,000 holds, it takes longer than many
// comparisons.
type schedule []scheduled

type scheduled struct {
	at driver.Instant
	h  *hold
}

func (s *schedule) add(h *hold, at driver.Instant) {
	*s = append(*s, scheduled{})
	s.moveUp(len(*s)-1, scheduled{at, h})
}

// change gives h a new time, and moves it to the place for that time.
func (s schedule) change(h *hold, at driver.Instant) {
	i, before := int(h.index), s[h.index].at
	if at < before {
		s.moveUp(i, scheduled{at, h})
	} else {
		s.moveDown(i, scheduled{at, h})
	}
}

func (s *schedule) remove(h *hold) {
	i, last := int(h.index), len(*s)-1
	h.index = -1
	e := (*s)[last]
	(*s)[last] = scheduled{}
	*s = (*s)[:last]
	if i < last {
		(*s)[i] = e
		e.h.index = int32(i)
		if i > 0 && (*s)[(i-1)/4].at > e.at {
			s.moveUp(i, e)
		} else {
			s.moveDown(i, e)
		}
	}
}

// moveUp puts e at index i, or higher in the heap: parents that are due later than e move down.
func (s schedule) moveUp(i int, e scheduled) {
	for i > 0 {
		parent := (i - 1) / 4
		if s[parent].at <= e.at {
			break
		}
		s.put(i, s[parent])
		i = parent
	}
	s.put(i, e)
}

// moveDown puts e at index i or lower in the heap. Children that are due earlier than e move up.
func (s schedule) moveDown(i int, e scheduled) {
	for {
		child := 4*i + 1
		if child >= len(s) {
			break
		}
		for other := child + 1; other < min(4*i+5, len(s)); other++ {
			if s[other].at < s[child].at {
				child = other
			}
		}
		if s[child].at >= e.at {
			break
		}
		s.put(i, s[child])
		i = child
	}
	s.put(i, e)
}

func (s schedule) put(i int, e scheduled) {
	s[i] = e
	e.h.index = int32(i)
}
