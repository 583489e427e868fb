package sampler

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/driver/fast"
	"github.com/padlock-go/padlock/internal/group"
)

// Describe returns what the states of one look at a store say about a name: those of its lock, of
// its slots and of the gates (fast.SlotName, fast.SlotGate). States of other names are ignored,
// and without any state the name is free. The result is the row that a Sampler without a past has.
// The time now is that of the look.
func Describe(name string, states []padlock.State, now time.Time) Name {
	t := newTracked(name, "", &grouped{name: group.Of(name)}, now)
	s := &sight{states: map[string]padlock.State{}, complete: true, first: true, counts: true, asked: now, now: now}
	for _, state := range states {
		if key := keyOf(&state); partOf(name, key) != otherName {
			s.states[key] = state
		}
		if state.Name == "" && pathMark+state.Path == name {
			t.name, t.path, t.group.name = "", state.Path, group.Of("")
		}
	}
	t.update(s)
	return t.row(now)
}

// DescribeAll describes each name of a list, such as that of Locker.List. The result is sorted by
// name.
func DescribeAll(states []padlock.State, now time.Time) []Name {
	byName := map[string][]padlock.State{}
	for _, state := range states {
		key := base(keyOf(&state))
		byName[key] = append(byName[key], state)
	}
	var all []Name
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		if !slices.ContainsFunc(byName[name], func(s padlock.State) bool { return partOf(name, keyOf(&s)) != companion }) {
			continue // whom they are about has left
		}
		all = append(all, Describe(name, byName[name], now))
	}
	return all
}

// Look asks the store for a name. If slots is 0, it asks for the lock without slots. Otherwise it
// asks for the slots 0 to slots-1 and for the callers that wait for one of them; this also works
// with a store that cannot list names. After an error, the state of the result is Unknown.
func Look(ctx context.Context, l *padlock.Locker, name string, slots int) (Name, error) {
	stored := []string{name}
	if slots > 0 {
		stored = nil
		for i := range slots {
			stored = append(stored, fast.SlotName(name, i))
		}
		stored = append(stored, fast.SlotGate(name, slots))
	}
	var states []padlock.State
	for _, one := range stored {
		state, err := l.Inspect(ctx, one)
		if err != nil {
			return unknown(name, slots, err), err
		}
		state.Name = one
		states = append(states, state)
		if slots == 0 && len(state.Holds) > 0 {
			// Most names are short enough for a question. If this one is not, nobody can ask.
			if asked, err := l.Inspect(ctx, fast.AskName(one)); err == nil {
				asked.Name = fast.AskName(one)
				states = append(states, asked)
			}
		}
	}
	n := Describe(name, states, time.Now())
	n.Slots = slots
	return n, nil
}

// unknown returns the row of a name for which the store could not be asked.
func unknown(name string, slots int, err error) Name {
	return Name{Name: name, State: Unknown, Why: reason(err).Error(), Waiters: -1, Slots: slots}
}

// LookAll asks the store for a name and for all slots of it. The list of the slots may take as long
// as patience. If it is incomplete, LookAll does not fail, because the lock itself is known: then
// Name.Unlisted says why. A store that cannot list names at all is no reason. After an error, for
// example because ctx ended, the state of the result is Unknown.
func LookAll(ctx context.Context, l *padlock.Locker, name string, patience time.Duration) (Name, error) {
	n, err := Look(ctx, l, name, 0)
	if err != nil {
		return n, err
	}
	listing, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	slots := strings.TrimSuffix(fast.SlotName(name, 0), ":0") // the gates begin like this, too
	states, err := l.List(listing, slots)
	var why error
	switch {
	case err == nil:
	case ctx.Err() != nil: // slots may be held
		return unknown(name, 0, err), err
	case reason(err) == errors.ErrUnsupported: // the store lists no names
		return n, nil
	case listing.Err() != nil:
		why = fmt.Errorf("the store could not list them within %s", patience)
	default:
		why = reason(err)
	}
	own := padlock.State{Name: name, Fence: n.Fence, Path: n.Path, Waiters: n.Waiters}
	for i := range n.Holds {
		own.Holds = append(own.Holds, n.Holds[i].Hold)
	}
	asked := n.Asked
	n = Describe(name, append(states, own), time.Now())
	n.Unlisted, n.Asked = why, asked
	return n, nil
}

// Blocking returns the holds because of which a caller would have to wait for the name: with slots
// 0 those of the lock itself, otherwise those of the slots 0 to slots-1 if none of these is free.
func (n *Name) Blocking(slots int) []Hold {
	var found []Hold
	taken := map[int]bool{}
	for _, h := range n.Holds {
		if slots == 0 && h.Slot < 0 || h.Slot >= 0 && h.Slot < slots {
			found = append(found, h)
			taken[h.Slot] = true
		}
	}
	if len(taken) < slots {
		return nil
	}
	return found
}

// HeldSlots returns how many slots of the name are held.
func (n *Name) HeldSlots() int {
	taken := map[int]bool{}
	for i := range n.Holds {
		if n.Holds[i].Slot >= 0 {
			taken[n.Holds[i].Slot] = true
		}
	}
	return len(taken)
}

// Mode returns the mode of a hold as a text, such as "shared" or "slot 2, cooling down".
func (h *Hold) Mode() string {
	text := "exclusive"
	switch {
	case h.Slot >= 0 && h.Cooling:
		return fmt.Sprintf("slot %d, cooling down", h.Slot)
	case h.Slot >= 0:
		text = fmt.Sprintf("slot %d", h.Slot)
	case h.Cooling:
		text = "cooling down"
	case h.Shared:
		text = "shared"
	}
	return text
}

// HotWaiters is the smallest number of waiters that makes a name hot.
const HotWaiters = 2

// Level returns the most important fact about a name in one word: "stuck", "unknown", "hot" if
// several callers wait for it, or the state.
func (n *Name) Level() string {
	switch {
	case len(n.Stuck) > 0:
		return "stuck"
	case n.State == Unknown:
		return string(Unknown)
	case n.Waiters >= HotWaiters:
		return "hot"
	}
	return string(n.State)
}

// Totals are sums over several names.
type Totals struct {
	Names   int `json:"names"`
	Held    int `json:"held"`    // names that are held
	Holds   int `json:"holders"` // holds, without cool-downs
	Waiters int `json:"waiters"` // the sum of those that are known
	Stuck   int `json:"stuck"`
	Hot     int `json:"hot"`
	Unknown int `json:"unknown"` // names of unknown state
}

// Add adds a name to the sums.
func (t *Totals) Add(n *Name) {
	t.Names++
	t.Waiters += max(0, n.Waiters)
	switch n.Level() {
	case "stuck":
		t.Stuck++
	case "hot":
		t.Hot++
	}
	switch n.State {
	case Unknown:
		t.Unknown++
	case Held:
		t.Held++
	}
	for i := range n.Holds {
		if !n.Holds[i].Cooling {
			t.Holds++
		}
	}
}

// Totals returns the sums over all rows.
func (s *Snapshot) Totals() (t Totals) {
	for i := range s.Names {
		t.Add(&s.Names[i])
	}
	return t
}
