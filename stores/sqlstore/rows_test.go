package sqlstore

import (
	"reflect"
	"testing"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/storekit/decide"
)

// rowOf is a row that has the given values.
type rowOf []any

func (c rowOf) Scan(dest ...any) error {
	for i, to := range dest {
		to := reflect.ValueOf(to).Elem()
		to.Set(reflect.ValueOf(c[i]).Convert(to.Type()))
	}
	return nil
}

// What a row keeps of a name is what was written, whether the hold has columns of its own or not.
func TestRowKeepsTheState(t *testing.T) {
	script := newScript(t)
	now := script.now
	holder := driver.Holder{Host: "h\u00f6st", PID: 7, Label: "l\U0001f512", Plan: time.Minute, Trace: "00-1"}
	hold := decide.Hold{Token: "a", Fence: 12, Since: now, Until: now.Add(time.Minute), Holder: holder}
	reserved, reader, other := hold, hold, hold
	reserved.Reserved = true
	reader.Shared, other.Shared, other.Token = true, true, "b"
	for what, holds := range map[string][]decide.Hold{
		"nothing": nil, "a writer": {hold}, "a reservation": {reserved}, "readers": {reader, other},
	} {
		want := script.st
		want.Holds, want.Fence, want.version = holds, 12, 3
		values, err := want.values()
		if err != nil {
			t.Fatal(err)
		}
		row := rowOf{[]byte("name"), want.version}
		name, got, at, err := scan(append(append(row, values...), now))
		if err != nil || name != "name" || at != now || !reflect.DeepEqual(got.Holds, want.Holds) || got.Fence != want.Fence {
			t.Errorf("%s: the row %q of %+v has %+v at %v, %v", what, name, want, got, at, err)
		}
	}
}
