package quorum_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/stores/memstore"
	"github.com/padlock-go/padlock/stores/quorum"
)

// wrapped is a store inside of a wrapper that shows only the methods of driver.Store.
type wrapped struct{ driver.Store }

func (w *wrapped) Unwrap() driver.Store { return w.Store }

// hollow has the methods of every ability, and lacks all of them. It must not be asked.
type hollow struct{ *memstore.Store }

func (h hollow) Guarantees() driver.Guarantees {
	g := h.Store.Guarantees()
	g.Lacks = ^driver.Ability(0)
	return g
}

func (hollow) Wait(context.Context, driver.Request, bool) (driver.Grant, error) { panic("asked") }

func (hollow) Inspect(context.Context, string) (driver.State, error) { panic("asked") }

func (hollow) List(context.Context, string) ([]driver.State, error) { panic("asked") }

func (hollow) Break(context.Context, string, uint64) (uint64, error) { panic("asked") }

func (hollow) RaiseFence(context.Context, string, string, uint64) error { panic("asked") }

func (hollow) Status(context.Context) ([]driver.Finding, error) { panic("asked") }

func (hollow) StoreID(context.Context) (string, error) { panic("asked") }

func of(t *testing.T, stores []driver.Store, opts ...quorum.Option) *quorum.Store {
	t.Helper()
	s, err := quorum.New(quorum.Majority, stores, opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func TestWrappedMembersLoseNoAbility(t *testing.T) {
	for name, wrap := range map[string]func(driver.Store) driver.Store{
		"wrapped": func(s driver.Store) driver.Store { return &wrapped{s} },
		"prefix":  func(s driver.Store) driver.Store { return padlock.WithPrefix(s, "tenant:") },
		"both":    func(s driver.Store) driver.Store { return &wrapped{padlock.WithPrefix(&wrapped{s}, "tenant:")} },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var stores []driver.Store
				for range 3 {
					stores = append(stores, wrap(&reporting{Store: memstore.New()}))
				}
				canAll(t, of(t, stores))
			})
		})
	}
}

// canAll uses every ability of a quorum.
func canAll(t *testing.T, s *quorum.Store) {
	r := reader("n")
	g := take(t, s, r)
	if _, err := s.Inspect(t.Context(), "n"); err != nil {
		t.Errorf("Inspect: %v", err)
	}
	if list, err := s.List(t.Context(), "n"); err != nil || len(list) != 1 {
		t.Errorf("List: %v, %v", list, err)
	}
	if err := s.RaiseFence(t.Context(), "n", r.Token.Text(), g.Fence+5); err != nil {
		t.Errorf("RaiseFence: %v", err)
	}
	state, err := s.Inspect(t.Context(), "n")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Break(t.Context(), "n", state.Fence); err != nil {
		t.Errorf("Break: %v", err)
	}
	if _, err := s.Wait(t.Context(), request("n"), false); err != nil {
		t.Errorf("Wait: %v", err)
	}
	if _, err := s.Status(t.Context()); err != nil {
		t.Errorf("Status: %v", err)
	}
	if _, err := s.StoreID(t.Context()); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("StoreID of a majority: %v", err)
	}
}

func TestHollowMembersHaveNoAbility(t *testing.T) {
	for _, cannotRaise := range []driver.Store{hollow{memstore.New()}, padlock.WithPrefix(&plain{memstore.New(), memstore.New().Guarantees()}, "a:")} {
		_, err := quorum.New(quorum.Majority, []driver.Store{cannotRaise}) // cannotRaise has fences
		wantErr(t, err, driver.ErrInvalid)
	}
	// One member with an ability is enough for Wait and Status only. The other operations need it
	// at more members.
	s := of(t, []driver.Store{memstore.New(), &reporting{Store: memstore.New()}, hollow{memstore.New()}}, quorum.NoFences())
	for op, err := range map[string]error{
		"Inspect": errOf(s.Inspect(t.Context(), "n")),
		"List":    errOf(s.List(t.Context(), "")),
		"Break":   errOf(s.Break(t.Context(), "n", 1)),
		"StoreID": errOf(s.StoreID(t.Context())),
	} {
		if !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("%s: want errors.ErrUnsupported, got %v", op, err)
		}
	}
	lacks := driver.AbilityInspect | driver.AbilityList | driver.AbilityBreak |
		driver.AbilityFenceRaiser | driver.AbilityStoreID | driver.AbilitySamePlace
	if got := s.Guarantees().Lacks; got != lacks {
		t.Errorf("the quorum says that it lacks %b, want %b", got, lacks)
	}
	all := of(t, []driver.Store{hollow{memstore.New()}}, quorum.NoFences())
	if _, err := all.Wait(t.Context(), request("n"), false); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("Wait where no member can: %v", err)
	}
	if _, err := all.Status(t.Context()); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("Status where no member can: %v", err)
	}
}

// A place that is behind a wrapper, or behind two prefixes, still has one vote only.
func TestOnePlaceHasOneVote(t *testing.T) {
	m := memstore.New()
	for name, other := range map[string]driver.Store{
		"wrapped twice": &wrapped{&wrapped{m}},
		"a handle":      &wrapped{m.Open()},
		"a prefix":      padlock.WithPrefix(m, "b:"),
	} {
		_, err := quorum.New(quorum.Majority, []driver.Store{padlock.WithPrefix(m, "a:"), memstore.New(), other})
		if !errors.Is(err, driver.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// knowing is a store whose id may not be known.
type knowing struct {
	*memstore.Store
	id    string
	asked int
}

func (k *knowing) StoreID(ctx context.Context) (string, error) {
	if ctx.Err() != nil {
		return "", ctx.Err()
	}
	k.asked++
	if k.id == "" {
		return "", driver.ErrUnavailable
	}
	return k.id, nil
}

// allOf is a store under the rule All.
func allOf(t *testing.T, stores ...driver.Store) *quorum.Store {
	t.Helper()
	s, err := quorum.New(quorum.All, stores)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func TestStoreID(t *testing.T) { synctest.Test(t, storeID) }

func storeID(t *testing.T) {
	a, b, c := &knowing{memstore.New(), "a", 0}, &knowing{memstore.New(), "b", 0}, &knowing{memstore.New(), "", 0}
	s := allOf(t, a, b, c)
	_, err := s.StoreID(t.Context())
	wantErr(t, err, driver.ErrUnavailable)
	c.id = "c"
	id, err := s.StoreID(t.Context())
	if err != nil || len(id) > driver.MaxStoreID {
		t.Fatalf("StoreID: %q, %v", id, err)
	}
	c.id = "changed"
	if again, err := s.StoreID(t.Context()); again != id || err != nil {
		t.Errorf("it was %q and is %q, %v", id, again, err)
	}
	if a.asked != 1 || b.asked != 1 || c.asked != 2 {
		t.Errorf("the members were asked %d, %d and %d times", a.asked, b.asked, c.asked)
	}
	c.id = "c"
	if other, _ := allOf(t, c, a, b).StoreID(t.Context()); other != id {
		t.Errorf("in another order it is %q, not %q", other, id)
	}
	if other, _ := allOf(t, a, b, memstore.New()).StoreID(t.Context()); other == id || other == "" {
		t.Errorf("with another member it is %q", other)
	}
}
