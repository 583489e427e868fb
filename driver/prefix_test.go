package driver

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
)

// abilities has the optional interfaces, each with a function that reports whether As finds
// it, and with all its parts.
var abilities = map[string]struct {
	kind  reflect.Type
	has   func(Store) bool
	lacks Ability
}{
	"Waiter":        {reflect.TypeFor[Waiter](), can[Waiter], AbilityWaiter},
	"SlotTaker":     {reflect.TypeFor[SlotTaker](), can[SlotTaker], AbilitySlotTaker},
	"BatchExtender": {reflect.TypeFor[BatchExtender](), can[BatchExtender], AbilityBatchExtender},
	"Passer":        {reflect.TypeFor[Passer](), can[Passer], AbilityPasser},
	"Converter":     {reflect.TypeFor[Converter](), can[Converter], AbilityConverter},
	"Admin":         {reflect.TypeFor[Admin](), can[Admin], AbilityInspect | AbilityList | AbilityBreak},
	"FenceRaiser":   {reflect.TypeFor[FenceRaiser](), can[FenceRaiser], AbilityFenceRaiser},
	"FileSharer":    {reflect.TypeFor[FileSharer](), can[FileSharer], AbilityFileSharer},
	"Places":        {reflect.TypeFor[Places](), can[Places], AbilityStoreID | AbilitySamePlace},
	"Recorder":      {reflect.TypeFor[Recorder](), can[Recorder], AbilityRecorder},
	"Reporter":      {reflect.TypeFor[Reporter](), can[Reporter], AbilityReporter},
}

func can[T any](s Store) bool {
	_, ok := As[T](s)
	return ok
}

// optionalInterfaces returns the names of all exported interfaces of this package but Store and
// Clock, which are not optional.
func optionalInterfaces(t *testing.T) (names []string) {
	t.Helper()
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
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

// A new ability must be added to prefixed, to abilityOf, and to the recorder of this test.
func TestPrefixHasEveryAbility(t *testing.T) {
	names := optionalInterfaces(t)
	full, bare := WithPrefix(&recorder{}, "p:"), WithPrefix(&plain{}, "p:")
	for _, name := range names {
		a, known := abilities[name]
		if !known {
			t.Errorf("this test does not know %s", name)
			continue
		}
		for _, s := range []Store{full, &recorder{}} {
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
	bare := WithPrefix(&plain{}, "p:")
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
	"n", "../n", "/", "..", "\x00", " ", "p:", "p:p:", "q:n", "*", "{n}", "}:f", "\n", "\xff", "%2e%2e/n", strings.Repeat("n", MaxName-2),
}

// Every method of every ability is called with hostile names. It must reach the name with the
// prefix, and no other.
func TestPrefixHidesOtherNames(t *testing.T) {
	inner := &recorder{}
	s := WithPrefix(inner, "p:")
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
		for _, name := range []string{"", strings.Repeat("n", MaxName-1), strings.Repeat("n", MaxName)} {
			if !takesName(method) || method == "List" || method == "Recorded" {
				continue
			}
			inner.names = nil
			_, err := call(t, s, method, name)
			if !errors.Is(err, ErrInvalid) || len(inner.names) > 0 {
				t.Errorf("%s with a name of %d bytes reaches %q and answers %v", method, len(name), inner.names, err)
			}
		}
	}
}

func methods(s Store) (names []string) {
	for i := range reflect.TypeOf(s).NumMethod() {
		names = append(names, reflect.TypeOf(s).Method(i).Name)
	}
	return names
}

func takesName(method string) bool {
	return !slices.Contains([]string{"Guarantees", "Close", "StoreID", "SamePlace", "Status"}, method)
}

// call calls a method with name for every string, and returns what it returns.
func call(t *testing.T, s Store, method, name string) ([]reflect.Value, error) {
	t.Helper()
	m := reflect.ValueOf(s).MethodByName(method)
	var args []reflect.Value
	for i := range m.Type().NumIn() {
		switch in := m.Type().In(i); in {
		case reflect.TypeFor[context.Context]():
			args = append(args, reflect.ValueOf(t.Context()))
		case reflect.TypeFor[Request]():
			args = append(args, reflect.ValueOf(Request{Name: name, Token: TokenOf("token")}))
		case reflect.TypeFor[[]Request]():
			args = append(args, reflect.ValueOf([]Request{{Name: name, Token: TokenOf("token")}}))
		case reflect.TypeFor[[]Extension]():
			args = append(args, reflect.ValueOf([]Extension{{Name: name, Token: TokenOf("token")}}))
		case reflect.TypeFor[string]():
			args = append(args, reflect.ValueOf(name))
		case reflect.TypeFor[Store]():
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

func (s *recorder) AcquireSlot(_ context.Context, r Request, _ int, _ bool) (int, Grant, error) {
	s.note(r.Name)
	return 0, Grant{}, nil
}

func (s *recorder) ExtendBatch(_ context.Context, holds []Extension) ([]Extended, error) {
	for _, h := range holds {
		s.note(h.Name)
	}
	return make([]Extended, len(holds)), nil
}

func (s *recorder) Acquire(_ context.Context, r Request) (Grant, error) {
	s.note(r.Name)
	return Grant{}, nil
}

func (s *recorder) Extend(_ context.Context, name, _ string, _ time.Duration) (Grant, error) {
	s.note(name)
	return Grant{}, nil
}

func (s *recorder) Release(_ context.Context, name, _ string, _ time.Duration) (Outcome, error) {
	s.note(name)
	return OutcomeReleased, nil
}

func (s *recorder) Guarantees() Guarantees { return Guarantees{MaxName: s.max} }

func (s *recorder) Close() error { return nil }

func (s *recorder) Wait(_ context.Context, r Request, _ bool) (Grant, error) {
	s.note(r.Name)
	return Grant{}, nil
}

func (s *recorder) Pass(_ context.Context, _ string, next Request) (Outcome, Grant, error) {
	s.note(next.Name)
	return OutcomeReleased, Grant{}, nil
}

func (s *recorder) Convert(_ context.Context, r Request) (Grant, error) {
	s.note(r.Name)
	return Grant{}, nil
}

func (s *recorder) Location(name string) (string, error) {
	s.note(name)
	return name, nil
}

func (s *recorder) Inspect(_ context.Context, name string) (State, error) {
	s.note(name)
	return State{Name: name}, nil
}

// List also returns names that nobody asked for.
func (s *recorder) List(_ context.Context, prefix string) ([]State, error) {
	s.note(prefix)
	return []State{{Name: prefix + "x"}, {Name: "p:"}, {Name: "q:x"}, {Name: ""}}, nil
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

func (s *recorder) Record(_ context.Context, name string, _ []Record) error {
	s.note(name)
	return nil
}

func (s *recorder) Records(_ context.Context, name string) ([]Record, error) {
	s.note(name)
	return nil, nil
}

// Recorded also returns names that nobody asked for.
func (s *recorder) Recorded(_ context.Context, prefix string, _ int) (map[string][]Record, error) {
	s.note(prefix)
	return map[string][]Record{prefix + "x": {{ID: "r", Text: "x"}}, "p:": nil, "q:x": nil, "": nil}, nil
}

func (s *recorder) SamePlace(Store) bool { return false }

func (s *recorder) Status(context.Context) ([]Finding, error) { return nil, nil }

// No method returns a name with the prefix, or a name of others. Location does: its result is not
// shown to anybody.
func TestPrefixIsInNoResult(t *testing.T) {
	s := WithPrefix(&recorder{}, "p:")
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
	s := WithPrefix(&recorder{}, "p:")
	i, _ := As[Admin](s)
	if state, err := i.Inspect(t.Context(), "p:n"); err != nil || state.Name != "p:n" {
		t.Errorf("Inspect returns %q, %v", state.Name, err)
	}
	if states, err := i.List(t.Context(), ""); err != nil || len(states) != 1 || states[0].Name != "x" {
		t.Errorf("List returns %+v, %v", states, err)
	}
}

func TestPrefixIsNotShownInRecords(t *testing.T) {
	r, _ := As[Recorder](WithPrefix(&recorder{}, "p:"))
	if all, err := r.Recorded(t.Context(), "", 10); err != nil || len(all) != 1 || all["x"] == nil {
		t.Errorf("Recorded returns %q, %v", all, err)
	}
}

func TestPrefixShortensNames(t *testing.T) {
	for _, c := range []struct {
		inner, prefix, most int
	}{{0, 2, MaxName - 2}, {100, 2, 98}, {100, 99, 1}, {100, 100, 1}, {100, 2000, 1}} {
		s := WithPrefix(&recorder{max: c.inner}, strings.Repeat("p", c.prefix))
		if got := s.Guarantees().MaxName; got != c.most {
			t.Errorf("before names of %d bytes a prefix of %d leaves %d", c.inner, c.prefix, got)
		}
	}
	if twice := WithPrefix(WithPrefix(&recorder{}, "p:"), "q:"); twice.Guarantees().MaxName != MaxName-4 {
		t.Errorf("two prefixes leave %d", twice.Guarantees().MaxName)
	}
}

func TestPrefixHasAnIDOfItsOwn(t *testing.T) {
	seen := map[string]bool{"id": true}
	for _, prefix := range []string{"p:", "q:"} {
		s, _ := As[Places](WithPrefix(&recorder{}, prefix))
		id, err := s.StoreID(t.Context())
		if err != nil || seen[id] || len(id) > MaxStoreID {
			t.Errorf("prefix %q has id %q, %v", prefix, id, err)
		}
		seen[id] = true
		again, _ := As[Places](WithPrefix(&recorder{}, prefix))
		if other, _ := again.StoreID(t.Context()); other != id {
			t.Errorf("prefix %q has ids %q and %q", prefix, id, other)
		}
	}
}

func TestNoPrefix(t *testing.T) {
	if s := (&plain{}); WithPrefix(s, "") != Store(s) {
		t.Error("an empty prefix makes another store")
	}
}

func TestPrefixIsNoOtherPlace(t *testing.T) {
	here, there := inspecting{&plain{"here"}}, inspecting{&plain{"there"}}
	for _, s := range []Store{WithPrefix(here, "p:"), WithPrefix(measured{here}, "q:"), measured{WithPrefix(here, "p:")}} {
		if !SamePlace(s, here) || !SamePlace(here, s) || SamePlace(s, there) {
			t.Errorf("SamePlace of %v is wrong", s)
		}
	}
}
