package soak

import (
	"errors"
	"slices"
	"testing"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/driver/fast"
)

// found returns the invariants that a history breaks.
func found(events ...Event) (got []string) {
	all, _ := Check(&Outcome{Events: events})
	for _, v := range all {
		got = append(got, v.Invariant)
	}
	return got
}

func TestPermits(t *testing.T) {
	permit := func(hold int64, slot int, at, until int64) Event {
		return Event{Op: Acquired, Worker: int(hold), Name: fast.SlotName("n", slot), Hold: hold, Call: (at - 1) * ms, At: at * ms, Fence: uint64(at), TTL: 400 * ms, Until: until * ms, Slots: 2}
	}
	released := func(hold int64, slot int, at int64) Event {
		return Event{Op: Released, Worker: int(hold), Name: fast.SlotName("n", slot), Hold: hold, Call: at * ms, At: (at + 1) * ms, Until: 900 * ms}
	}
	first, second := permit(1, 0, 10, 400), permit(2, 1, 20, 400)
	if got := found(first, second, permit(3, 0, 401, 800)); got != nil {
		t.Errorf("a permit was used again after its lease: %v", got)
	}
	if got := found(first, second, released(1, 0, 29), permit(3, 0, 30, 800)); got != nil {
		t.Errorf("a permit was used again after its release: %v", got)
	}
	if got := found(first, second, permit(3, 2, 30, 400)); !slices.Equal(got, []string{"I10"}) {
		t.Errorf("three of two permits: %v", got)
	}
	if got := found(first, second, permit(3, 1, 30, 400)); !slices.Equal(got, []string{"I1", "I10"}) && !slices.Equal(got, []string{"I10", "I1"}) {
		t.Errorf("a permit that two have: %v", got)
	}
	waited := func(at int64) Event {
		e := permit(3, 0, at, at+100)
		e.Call, e.Waited = 25*ms, true
		return e
	}
	if got := found(first, second, waited(1150)); got != nil {
		t.Errorf("a waiter got a permit soon after the leases: %v", got)
	}
	if got := found(first, second, waited(2500)); !slices.Contains(got, "I6") {
		t.Errorf("a waiter got no permit although both were free: %v", got)
	}
	renewed := first
	renewed.Until = 5000 * ms
	if got := found(renewed, second, waited(2500)); !slices.Contains(got, "I6") {
		t.Errorf("a waiter got no permit although the second one was free: %v", got)
	}
	if got := found(first, second, Event{Op: Refused, Worker: 3, Name: "n", Call: 25 * ms, At: 2500 * ms, Waited: true, Slots: 2, Err: "held"}); !slices.Contains(got, "I6") {
		t.Errorf("a waiter was refused although both permits were free: %v", got)
	}
}

func TestSeveral(t *testing.T) {
	left := Event{Op: Broken, Worker: 1, Name: "n", Call: 20 * ms, At: 30 * ms, Err: "I11 it is held all the same"}
	if got := found(left); !slices.Equal(got, []string{"I11"}) {
		t.Errorf("a name was left behind: %v", got)
	}
	if got := found(left, Event{Op: Faulted, Worker: engine, Call: 1, At: 10 * ms}); got != nil {
		t.Errorf("a name was left behind during a fault: %v", got)
	}
	stalled := Event{Op: Stalled, Worker: engine, Call: 1, At: 10 * ms}
	if got := found(left, stalled); got != nil {
		t.Errorf("a name was left behind after a refusal, while a process stood still: %v", got)
	}
	left.Err = "I11 " + severalReleased + ", and this name is held all the same"
	if got := found(left, stalled); !slices.Equal(got, []string{"I11"}) {
		t.Errorf("a name was left behind after a release, while a process stood still: %v", got)
	}
	if got := found(left, stalled, promised(Promises{Voting: true})); got != nil {
		t.Errorf("a name was left behind by a majority, while a process stood still: %v", got)
	}
	if got := found(left, Event{Op: Faulted, Worker: engine, Call: 1, At: 10 * ms}); got != nil {
		t.Errorf("a name was left behind after a release, during a fault: %v", got)
	}
	one, other := &padlock.Error{Name: "a", Err: padlock.ErrLost}, &padlock.Error{Name: "b", Err: padlock.ErrExpired}
	both := errors.Join(one, other)
	if errorFor("a", both) != one || errorFor("b", both) != other || errorFor("c", both) != nil || errorFor("a", nil) != nil {
		t.Error("a joined error was not taken apart")
	}
}

func TestLeaders(t *testing.T) {
	piece := func(hold int64, fence uint64, from, to int64) Event {
		return Event{Op: Led, Worker: int(hold), Name: "e", Hold: hold, Fence: fence, Call: from * ms, At: to * ms}
	}
	sure := piece(1, 5, 30, 35)
	sure.Err = confirmed
	first := []Event{piece(1, 5, 10, 20), piece(1, 5, 20, 30)}
	late := promised(Promises{LearnsLate: 100 * ms})
	for _, c := range []struct {
		name   string
		events []Event
		want   []string
	}{
		{"one after the other", []Event{piece(2, 6, 31, 40)}, nil},
		{"at the same time", []Event{piece(2, 6, 29, 40)}, []string{"I12"}},
		{"inside of a lead", []Event{piece(2, 6, 12, 14)}, []string{"I12"}},
		{"the same fence", []Event{piece(2, 5, 31, 40)}, []string{"I12"}},
		{"a smaller fence", []Event{piece(2, 4, 31, 40)}, []string{"I12"}},
		{"without fences", []Event{piece(2, 0, 31, 40)}, nil},
		{"at the same time, where a leader may learn late of a loss", []Event{late, piece(2, 6, 29, 40)}, nil},
		{"before the store confirmed the lead of the other, where a leader may learn late of a loss", []Event{late, sure, piece(2, 6, 34, 5000)}, []string{"I12"}},
		{"after the store confirmed the lead of the other", []Event{late, sure, piece(1, 5, 35, 50), piece(2, 6, 36, 5000)}, nil},
		{"longer ago than a leader may learn of its loss", []Event{late, piece(1, 5, 30, 9000), piece(2, 6, 1000, 5000)}, []string{"I12"}},
	} {
		if got := found(append(slices.Clone(first), c.events...)...); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}
