package soak

import (
	"flag"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write testdata/wire.txt anew")

// TestWire compares the types of the wire with those that an older worker uses. Fields may be
// added. If a field is renamed or removed, or gets another type, it is zero on the other side,
// without an error. The result of the soak is then wrong.
func TestWire(t *testing.T) {
	fields := wireFields()
	const golden = "testdata/wire.txt"
	if *update {
		if err := os.WriteFile(golden, []byte(strings.Join(fields, "\n")+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	for want := range strings.Lines(string(text)) {
		if want = strings.TrimSpace(want); !slices.Contains(fields, want) {
			t.Errorf("the wire lacks %s, which an older worker uses: keep it, or raise olderCommit of lab/chaos/rig to a commit with the new wire and run this test with -args -update", want)
		}
	}
}

// wireFields lists the fields of all types that go from process to process, with their types.
func wireFields() []string {
	var fields []string
	seen := map[reflect.Type]bool{}
	var add func(reflect.Type)
	add = func(typ reflect.Type) {
		if typ.Kind() != reflect.Struct || seen[typ] {
			return
		}
		seen[typ] = true
		for i := range typ.NumField() {
			field := typ.Field(i)
			fields = append(fields, fmt.Sprintf("%s.%s %s %s", typ.Name(), field.Name, field.Type, field.Tag.Get("json")))
			add(field.Type)
		}
	}
	for _, typ := range []reflect.Type{reflect.TypeFor[order](), reflect.TypeFor[call](), reflect.TypeFor[reply]()} {
		add(typ)
	}
	for i := range fields {
		fields[i] = strings.TrimSpace(fields[i])
	}
	slices.Sort(fields)
	return fields
}

func TestGrantsBy(t *testing.T) {
	out := &Outcome{Events: []Event{
		{Op: Other, Worker: 1}, {Op: Acquired, Worker: 1}, {Op: Acquired, Worker: 1, Life: 1}, {Op: Adopted, Worker: 2},
		{Op: Refused, Worker: 1},
	}}
	if got := out.GrantsBy(func(_ int, other bool) string { return fmt.Sprint(other) }); got["false"] != 2 || got["true"] != 1 {
		t.Errorf("this program and the other one have the grants %v, want 2 and 1", got)
	}
}
