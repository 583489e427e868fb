package padlock_test

import (
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/driver/fast"
	"github.com/padlock-go/padlock/stores/memstore"
)

// abilities has the optional interfaces, each with a function that reports whether As finds
// it, and with all its parts.
var abilities = map[string]struct {
	kind  reflect.Type
	has   func(driver.Store) bool
	lacks driver.Ability
}{
	"Waiter":        {reflect.TypeFor[driver.Waiter](), can[driver.Waiter], driver.AbilityWaiter},
	"SlotTaker":     {reflect.TypeFor[fast.SlotTaker](), can[fast.SlotTaker], driver.AbilitySlotTaker},
	"BatchExtender": {reflect.TypeFor[fast.BatchExtender](), can[fast.BatchExtender], driver.AbilityBatchExtender},
	"Passer":        {reflect.TypeFor[fast.Passer](), can[fast.Passer], driver.AbilityPasser},
	"Converter":     {reflect.TypeFor[driver.Converter](), can[driver.Converter], driver.AbilityConverter},
	"Admin":         {reflect.TypeFor[driver.Admin](), can[driver.Admin], driver.AbilityInspect | driver.AbilityList | driver.AbilityBreak},
	"FenceRaiser":   {reflect.TypeFor[driver.FenceRaiser](), can[driver.FenceRaiser], driver.AbilityFenceRaiser},
	"FileSharer":    {reflect.TypeFor[fast.FileSharer](), can[fast.FileSharer], driver.AbilityFileSharer},
	"Places":        {reflect.TypeFor[driver.Places](), can[driver.Places], driver.AbilityStoreID | driver.AbilitySamePlace},
	"Recorder":      {reflect.TypeFor[fast.Recorder](), can[fast.Recorder], driver.AbilityRecorder},
	"Reporter":      {reflect.TypeFor[driver.Reporter](), can[driver.Reporter], driver.AbilityReporter},
}

func can[T any](s driver.Store) bool {
	_, ok := driver.As[T](s)
	return ok
}

// plain has the five methods of a store, and none of its abilities.
type plain struct{ driver.Store }

// measured is a wrapper that leaves names alone.
type measured struct{ driver.Store }

func (m measured) Unwrap() driver.Store { return m.Store }

// optionalInterfaces returns the names of all exported interfaces of driver and driver/fast but
// Store and Clock, which are not optional.
func optionalInterfaces(t *testing.T) (names []string) {
	t.Helper()
	files, err := filepath.Glob("driver/*.go")
	if err != nil {
		t.Fatal(err)
	}
	more, err := filepath.Glob("driver/fast/*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range append(files, more...) {
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(f, func(n ast.Node) bool {
			spec, ok := n.(*ast.TypeSpec)
			if !ok || !ast.IsExported(spec.Name.Name) || spec.Name.Name == "Store" || spec.Name.Name == "Clock" {
				return true
			}
			if _, ok := spec.Type.(*ast.InterfaceType); ok {
				names = append(names, spec.Name.Name)
			}
			return true
		})
	}
	return names
}

// A new ability must be added to prefixed, to WithPrefix, to abilityOf in package driver, and to the
// recorder of this test.
func TestPrefixHasEveryAbility(t *testing.T) {
	names := optionalInterfaces(t)
	full, bare := padlock.WithPrefix(&recorder{}, "p:"), padlock.WithPrefix(plain{&recorder{}}, "p:")
	for _, name := range names {
		a, known := abilities[name]
		if !known {
			t.Errorf("this test does not know %s", name)
			continue
		}
		for _, s := range []driver.Store{full, &recorder{}} {
			if !reflect.TypeOf(s).Implements(a.kind) {
				t.Errorf("%T has no method of %s", s, name)
			}
		}
		if !a.has(full) || a.has(bare) != (name == "Places") { // Location needs nothing of the store inside
			t.Errorf("As finds %s: %v where the store inside has it, %v where it has not", name, a.has(full), a.has(bare))
		}
	}
	if len(names) != len(abilities) {
		t.Errorf("the package has %q, this test %d", names, len(abilities))
	}
}

// A method that the inner store lacks returns errors.ErrUnsupported.
func TestPrefixBeforeABareStore(t *testing.T) {
	bare := padlock.WithPrefix(plain{&recorder{}}, "p:")
	for name, a := range abilities {
		for i := range a.kind.NumMethod() {
			m := a.kind.Method(i)
			if m.Name == "SamePlace" || m.Name == "Location" {
				continue // the first two return no error, and a location needs nothing of the inner store
			}
			if _, err := call(t, bare, m.Name, "n"); !errors.Is(err, errors.ErrUnsupported) {
				t.Errorf("%s of %s answers %v", m.Name, name, err)
			}
		}
	}
}

// hostile are names that would reach another name if they were cleaned, or joined as paths.
var hostile = []string{
	"n", "../n", "/", "..", "\x00", " ", "p:", "p:p:", "q:n", "*", "{n}", "}:f", "\n", "\xff", "%2e%2e/n", strings.Repeat("n", driver.MaxName-2),
}

// Every method of every ability is called with hostile names. It must reach the name with the
// prefix, and no other.
func TestPrefixHidesOtherNames(t *testing.T) {
	inner := &recorder{}
	s := padlock.WithPrefix(inner, "p:")
	for _, method := range methods(s) {
		for _, name := range hostile {
			inner.names = nil
			if _, err := call(t, s, method, name); err != nil {
				t.Errorf("%s(%q) answers %v", method, name, err)
			}
			if want := []string{"p:" + name}; takesName(method) && !slices.Equal(inner.names, want) {
				t.Errorf("%s(%q) reaches %q", method, name, inner.names)
			}
		}
		for _, name := range []string{"", strings.Repeat("n", driver.MaxName-1), strings.Repeat("n", driver.MaxName)} {
			if !takesName(method) || method == "List" || method == "Recorded" {
				continue
			}
			inner.names = nil
			_, err := call(t, s, method, name)
			if !errors.Is(err, driver.ErrInvalid) || len(inner.names) > 0 {
				t.Errorf("%s with a name of %d bytes reaches %q and answers %v", method, len(name), inner.names, err)
			}
		}
	}
}

func methods(s driver.Store) (names []string) {
	for i := range reflect.TypeOf(s).NumMethod() {
		names = append(names, reflect.TypeOf(s).Method(i).Name)
	}
	return names
}

func takesName(method string) bool {
	return !slices.Contains([]string{"Guarantees", "Close", "StoreID", "SamePlace", "Status"}, method)
}

// call calls a method with name for every string, and returns what it returns.
func call(t *testing.T, s driver.Store, method, name string) ([]reflect.Value, error) {
	t.Helper()
	m := reflect.ValueOf(s).MethodByName(method)
	var args []reflect.Value
	for i := range m.Type().NumIn() {
		switch in := m.Type().In(i); in {
		case reflect.TypeFor[context.Context]():
			args = append(args, reflect.ValueOf(t.Context()))
		case reflect.TypeFor[driver.Request]():
			args = append(args, reflect.ValueOf(driver.Request{Name: name, Token: driver.TokenOf("token")}))
		case reflect.TypeFor[[]driver.Request]():
			args = append(args, reflect.ValueOf([]driver.Request{{Name: name, Token: driver.TokenOf("token")}}))
		case reflect.TypeFor[[]fast.Extension]():
			args = append(args, reflect.ValueOf([]fast.Extension{{Name: name, Token: driver.TokenOf("token")}}))
		case reflect.TypeFor[string]():
			args = append(args, reflect.ValueOf(name))
		case reflect.TypeFor[driver.Store]():
			args = append(args, reflect.ValueOf(s))
		default:
			args = append(args, reflect.Zero(in))
		}
	}
	out := m.Call(args)
	if len(out) == 0 {
		return nil, nil
	}
	err, _ := out[len(out)-1].Interface().(error)
	return out, err
}

// recorder has every ability, and keeps the names that reach it.
type recorder struct {
	names []string
	max   int
}

func (s *recorder) note(name string) { s.names = append(s.names, name) }

func (s *recorder) AcquireSlot(_ context.Context, r driver.Request, _ int, _ bool) (int, driver.Grant, error) {
	s.note(r.Name)
	return 0, driver.Grant{}, nil
}

func (s *recorder) ExtendBatch(_ context.Context, holds []fast.Extension) ([]fast.Extended, error) {
	for _, h := range holds {
		s.note(h.Name)
	}
	return make([]fast.Extended, len(holds)), nil
}

func (s *recorder) Acquire(_ context.Context, r driver.Request) (driver.Grant, error) {
	s.note(r.Name)
	return driver.Grant{}, nil
}

func (s *recorder) Extend(_ context.Context, name, _ string, _ time.Duration) (driver.Grant, error) {
	s.note(name)
	return driver.Grant{}, nil
}

func (s *recorder) Release(_ context.Context, name, _ string, _ time.Duration) (driver.Outcome, error) {
	s.note(name)
	return driver.OutcomeReleased, nil
}

func (s *recorder) Guarantees() driver.Guarantees { return driver.Guarantees{MaxName: s.max} }

func (s *recorder) Close() error { return nil }

func (s *recorder) Wait(_ context.Context, r driver.Request, _ bool) (driver.Grant, error) {
	s.note(r.Name)
	return driver.Grant{}, nil
}

func (s *recorder) Pass(_ context.Context, _ string, next driver.Request) (driver.Outcome, driver.Grant, error) {
	s.note(next.Name)
	return driver.OutcomeReleased, driver.Grant{}, nil
}

func (s *recorder) Convert(_ context.Context, r driver.Request) (driver.Grant, error) {
	s.note(r.Name)
	return driver.Grant{}, nil
}

func (s *recorder) Location(name string) (string, error) {
	s.note(name)
	return name, nil
}

func (s *recorder) Inspect(_ context.Context, name string) (driver.State, error) {
	s.note(name)
	return driver.State{Name: name}, nil
}

// List also returns names that nobody asked for.
func (s *recorder) List(_ context.Context, prefix string) ([]driver.State, error) {
	s.note(prefix)
	return []driver.State{{Name: prefix + "x"}, {Name: "p:"}, {Name: "q:x"}, {Name: ""}}, nil
}

func (s *recorder) Break(_ context.Context, name string, _ uint64) (uint64, error) {
	s.note(name)
	return 1, nil
}

func (s *recorder) RaiseFence(_ context.Context, name, _ string, _ uint64) error {
	s.note(name)
	return nil
}

func (s *recorder) File(name, _ string) (*os.File, error) {
	s.note(name)
	return nil, nil
}

func (s *recorder) StoreID(context.Context) (string, error) { return "id", nil }

func (s *recorder) Record(_ context.Context, name string, _ []fast.Record) error {
	s.note(name)
	return nil
}

func (s *recorder) Records(_ context.Context, name string) ([]fast.Record, error) {
	s.note(name)
	return nil, nil
}

// Recorded also returns names that nobody asked for.
func (s *recorder) Recorded(_ context.Context, prefix string, _ int) (map[string][]fast.Record, error) {
	s.note(prefix)
	return map[string][]fast.Record{prefix + "x": {{ID: "r", Text: "x"}}, "p:": nil, "q:x": nil, "": nil}, nil
}

func (s *recorder) SamePlace(driver.Store) bool { return false }

func (s *recorder) Status(context.Context) ([]driver.Finding, error) { return nil, nil }

// No method returns a name with the prefix, or a name of others. Location does: its result is not
// shown to anybody.
func TestPrefixIsInNoResult(t *testing.T) {
	s := padlock.WithPrefix(&recorder{}, "p:")
	for _, method := range methods(s) {
		results, _ := call(t, s, method, "n")
		for _, r := range results {
			text := fmt.Sprintf("%+v", r)
			if takesName(method) && method != "Location" && (strings.Contains(text, "p:") || strings.Contains(text, "q:")) {
				t.Errorf("%s returns %s", method, text)
			}
		}
	}
}

// Names in results come without the prefix.
func TestPrefixIsNotShown(t *testing.T) {
	s := padlock.WithPrefix(&recorder{}, "p:")
	i, _ := driver.As[driver.Admin](s)
	if state, err := i.Inspect(t.Context(), "p:n"); err != nil || state.Name != "p:n" {
		t.Errorf("Inspect returns %q, %v", state.Name, err)
	}
	if states, err := i.List(t.Context(), ""); err != nil || len(states) != 1 || states[0].Name != "x" {
		t.Errorf("List returns %+v, %v", states, err)
	}
}

func TestPrefixIsNotShownInRecords(t *testing.T) {
	r, _ := driver.As[fast.Recorder](padlock.WithPrefix(&recorder{}, "p:"))
	if all, err := r.Recorded(t.Context(), "", 10); err != nil || len(all) != 1 || all["x"] == nil {
		t.Errorf("Recorded returns %q, %v", all, err)
	}
}

func TestPrefixShortensNames(t *testing.T) {
	for _, c := range []struct {
		inner, prefix, most int
	}{{0, 2, driver.MaxName - 2}, {100, 2, 98}, {100, 99, 1}, {100, 100, 1}, {100, 2000, 1}} {
		s := padlock.WithPrefix(&recorder{max: c.inner}, strings.Repeat("p", c.prefix))
		if got := s.Guarantees().MaxName; got != c.most {
			t.Errorf("before names of %d bytes a prefix of %d leaves %d", c.inner, c.prefix, got)
		}
	}
	if twice := padlock.WithPrefix(padlock.WithPrefix(&recorder{}, "p:"), "q:"); twice.Guarantees().MaxName != driver.MaxName-4 {
		t.Errorf("two prefixes leave %d", twice.Guarantees().MaxName)
	}
}

func TestPrefixHasAnIDOfItsOwn(t *testing.T) {
	seen := map[string]bool{"id": true}
	for _, prefix := range []string{"p:", "q:"} {
		s, _ := driver.As[driver.Places](padlock.WithPrefix(&recorder{}, prefix))
		id, err := s.StoreID(t.Context())
		if err != nil || seen[id] || len(id) > driver.MaxStoreID {
			t.Errorf("prefix %q has id %q, %v", prefix, id, err)
		}
		seen[id] = true
		again, _ := driver.As[driver.Places](padlock.WithPrefix(&recorder{}, prefix))
		if other, _ := again.StoreID(t.Context()); other != id {
			t.Errorf("prefix %q has ids %q and %q", prefix, id, other)
		}
	}
}

func TestNoPrefix(t *testing.T) {
	if s := (plain{&recorder{}}); padlock.WithPrefix(s, "") != driver.Store(s) {
		t.Error("an empty prefix makes another store")
	}
}

func TestPrefixIsNoOtherPlace(t *testing.T) {
	memory, other := memstore.New(), memstore.New()
	for what, c := range map[string]struct{ here, there driver.Store }{"with Places": {memory, other}, "without": {plain{memory}, plain{other}}} {
		for i, s := range []driver.Store{
			padlock.WithPrefix(c.here, "p:"), padlock.WithPrefix(measured{c.here}, "q:"), measured{padlock.WithPrefix(c.here, "p:")},
			padlock.WithPrefix(measured{padlock.WithPrefix(c.here, "p:")}, "q:"),
		} {
			for _, same := range []driver.Store{c.here, padlock.WithPrefix(c.here, "r:"), measured{padlock.WithPrefix(measured{c.here}, "r:")}} {
				if !driver.SamePlace(s, same) || !driver.SamePlace(same, s) {
					t.Errorf("store %d around a store %s is in another place than that store", i, what)
				}
			}
			if driver.SamePlace(s, c.there) || driver.SamePlace(c.there, padlock.WithPrefix(s, "r:")) {
				t.Errorf("store %d around a store %s is in the place of another one", i, what)
			}
		}
	}
}

// lacking is a recorder that lacks some of its abilities.
type lacking struct {
	*recorder
	lacks driver.Ability
}

func (s lacking) Guarantees() driver.Guarantees { return driver.Guarantees{Lacks: s.lacks} }

// As believes Guarantees.Lacks, and finds an ability of which the store has a part.
func TestAsFindsNoAbilityThatTheStoreLacks(t *testing.T) {
	for name, a := range abilities {
		if !a.has(lacking{&recorder{}, 0}) || !a.has(lacking{&recorder{}, ^a.lacks}) {
			t.Errorf("As does not find %s", name)
		}
		for _, s := range []driver.Store{lacking{&recorder{}, a.lacks}, measured{lacking{&recorder{}, a.lacks}}, padlock.WithPrefix(lacking{&recorder{}, a.lacks}, "p:")} {
			if a.has(s) != (name == "Places") { // Location is never lacking
				t.Errorf("of %T that lacks it, As finds %s: %v", s, name, a.has(s))
			}
		}
	}
	if !can[driver.Admin](lacking{&recorder{}, driver.AbilityList | driver.AbilityBreak}) {
		t.Error("As does not find an Admin that can inspect")
	}
	if !can[lacking](measured{lacking{&recorder{}, ^driver.Ability(0)}}) {
		t.Error("As does not find a store that lacks everything by its type")
	}
}
