package sessionstore_test

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/padlock-go/padlock/web/session/sessionstore"
)

// TestPackedKeepsAll: deadline, order, empty values and odd keys survive. If bytes are missing, the
// rest is refused or has fewer fields.
func TestPackedKeepsAll(t *testing.T) {
	end := time.UnixMilli(1_900_000_000_123)
	doc := sessionstore.Packed().New(end)
	want := []sessionstore.Field{{Key: "z", Value: []byte("1")}, {Key: "\x00é", Value: []byte{}}, {Key: "a", Value: []byte(strings.Repeat("x", 300))}}
	for _, f := range want {
		noError(t, doc.Set(f.Key, f.Value))
	}
	data, err := doc.Encode()
	noError(t, err)
	got, err := sessionstore.Packed().Parse(data)
	if err != nil || !got.Deadline().Equal(end) || !reflect.DeepEqual(got.Fields(), want) {
		t.Errorf("%v, %v", got, err)
	}
	for n := range data {
		if cut, err := sessionstore.Packed().Parse(data[:n]); err == nil && len(cut.Fields()) == len(want) || err != nil && !errors.Is(err, sessionstore.ErrRefused) {
			t.Errorf("the first %d bytes: %v", n, err)
		}
	}
}
