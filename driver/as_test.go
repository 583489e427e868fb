package driver

import (
	"context"
	"testing"
	"time"
)

// plain is a store with the five methods.
type plain struct{ place string }

func (plain) Acquire(context.Context, Request) (Grant, error) { return Grant{}, nil }
func (plain) Extend(context.Context, string, string, time.Duration) (Grant, error) {
	return Grant{}, nil
}
func (plain) Release(context.Context, string, string, time.Duration) (Outcome, error) {
	return OutcomeGone, nil
}
func (plain) Guarantees() Guarantees { return Guarantees{} }
func (plain) Close() error           { return nil }

// inspecting is a store with an ability.
type inspecting struct{ *plain }

func (inspecting) Inspect(context.Context, string) (State, error)        { return State{Fence: 7}, nil }
func (inspecting) List(context.Context, string) ([]State, error)         { return nil, nil }
func (inspecting) Break(context.Context, string, uint64) (uint64, error) { return 0, nil }
func (inspecting) StoreID(context.Context) (string, error)               { return "id", nil }
func (inspecting) Location(name string) (string, error)                  { return name, nil }
func (s inspecting) SamePlace(other Store) bool {
	o, ok := other.(inspecting)
	return ok && o.place == s.place
}

// measured is a wrapper that leaves names alone.
type measured struct{ Store }

func (m measured) Unwrap() Store { return m.Store }

// renaming is a wrapper that may change names, so it has no Unwrap.
type renaming struct{ Store }

func TestAsLooksThroughWrappers(t *testing.T) {
	inner := inspecting{&plain{"here"}}
	for what, s := range map[string]Store{"the store": inner, "a wrapper": measured{inner}, "two wrappers": measured{measured{inner}}} {
		i, ok := As[Admin](s)
		if !ok {
			t.Errorf("%s has lost its ability", what)
			continue
		}
		if state, _ := i.Inspect(t.Context(), "n"); state.Fence != 7 {
			t.Errorf("%s answers %+v", what, state)
		}
		if got, ok := As[inspecting](s); !ok || got != inner {
			t.Errorf("%s hides the store's type", what)
		}
		if _, ok := As[Waiter](s); ok {
			t.Errorf("%s has an ability that nobody wrote", what)
		}
	}
	if _, ok := As[Admin](renaming{inner}); ok {
		t.Error("an ability was found in a wrapper without Unwrap")
	}
	if _, ok := As[Admin](measured{renaming{inner}}); ok {
		t.Error("an ability was found behind a wrapper without Unwrap")
	}
	if _, ok := As[Admin](measured{}); ok {
		t.Error("an ability was found in a wrapper of nothing")
	}
}

func TestSamePlace(t *testing.T) {
	here, other := inspecting{&plain{"here"}}, inspecting{&plain{"there"}}
	again := inspecting{&plain{"here"}}
	p := &plain{}
	for _, c := range []struct {
		a, b Store
		same bool
	}{
		{here, here, true}, {here, again, true}, {here, other, false}, {measured{here}, measured{measured{again}}, true},
		{here, p, false}, {p, p, true}, {p, &plain{}, false}, {measured{p}, p, true},
		{uncomparable{p, nil}, uncomparable{p, nil}, false}, {uncomparable{p, nil}, p, false},
	} {
		if got := SamePlace(c.a, c.b); got != c.same {
			t.Errorf("SamePlace(%v, %v) is %v", c.a, c.b, got)
		}
		if got := SamePlace(c.b, c.a); got != c.same {
			t.Errorf("SamePlace(%v, %v) is %v", c.b, c.a, got)
		}
	}
}

type uncomparable struct {
	*plain
	_ []int
}
