package advisory

import (
	"context"
	"testing"
)

// An idle is a session that does nothing.
type idle struct{}

func (idle) Bound() context.Context { return context.Background() }
func (idle) Watch()                 {}
func (idle) Refresh() bool          { return true }
func (idle) SetLoad(int)            {}
func (idle) Lose(error)             {}
func (idle) Close()                 {}

// The first 8 waiters of a process get an entry. Those behind them get one in the order in which
// they came. A waiter that leaves passes its entry on.
func TestLine(t *testing.T) {
	p := &pool[idle]{}
	var entries []*poolEntry[idle]
	for range waitConns {
		sl, w := p.waiter("held", true)
		if sl == nil || w != nil {
			t.Fatal("one of the first waiters has no entry")
		}
		entries = append(entries, sl)
	}
	var line []*waiter[idle]
	for range 3 {
		sl, w := p.waiter("job", true)
		if sl != nil {
			t.Fatal("there are more entries than there should be")
		}
		line = append(line, w)
	}
	_, watcher := p.waiter("job", false)
	if p.countAhead(line[2]) != 2 {
		t.Errorf("%d waiters are ahead of the third one", p.countAhead(line[2]))
	}
	p.giveBack(entries[3])
	if len(line[0].free) != 1 || len(line[1].free)+len(line[2].free)+len(watcher.free) != 0 {
		t.Fatal("an entry that became free did not go to the first waiter alone")
	}
	p.leaveLine(line[0])
	if len(line[1].free) != 1 {
		t.Error("a waiter that left with an entry did not pass it on")
	}
	if got := <-line[1].free; got != entries[3] || !got.taken {
		t.Error("the entry that was passed on is another one, or is free")
	}
	p.leaveLine(line[2])
	p.giveBack(entries[5])
	if entries[5].taken {
		t.Error("nobody waits for an entry, and it is not free")
	}
	if sl, _ := p.waiter("job", true); sl != entries[5] {
		t.Error("the next waiter does not get the free entry")
	}
}

// A release wakes the first of the waiters with reserve and all waiters without it. It wakes no
// waiter for another lock.
func TestWake(t *testing.T) {
	p := &pool[idle]{}
	for range waitConns {
		p.waiter("held", true)
	}
	_, other := p.waiter("other", true)
	_, watcher := p.waiter("job", false)
	_, first := p.waiter("job", true)
	_, second := p.waiter("job", true)
	_, late := p.waiter("job", false)
	p.wake("job")
	p.wake("job") // a waiter that was woken needs no second wake-up
	for i, w := range []*waiter[idle]{other, watcher, first, second, late} {
		if want := []int{0, 1, 1, 0, 1}[i]; len(w.woken) != want {
			t.Errorf("waiter %d was woken %d times, want %d", i, len(w.woken), want)
		}
	}
}
