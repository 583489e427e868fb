package jsoncodec

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"
)

type hidden struct{ body string }

type dashed struct {
	Body string `json:"-"`
}

type embedded struct{ inner }
type inner struct{ Body string }
type around struct{ hidden }

type marshaler struct{ body string }

func (m marshaler) MarshalText() ([]byte, error) { return []byte(m.body), nil }

type list []list

// TestCheck: a type of which JSON keeps nothing is refused, also as an element. Every other type is
// left to encoding/json.
func TestCheck(t *testing.T) {
	for _, v := range []any{hidden{body: "x"}, &hidden{}, []hidden{}, [1]hidden{}, map[string]*hidden{}, dashed{}, around{hidden: hidden{}}, struct{ err error }{}} {
		if err := Check(reflect.TypeOf(v)); err == nil || !strings.Contains(err.Error(), "none of its fields is exported") {
			t.Errorf("%T: %v", v, err)
		}
	}
	for _, v := range []any{nil, 1, "x", struct{}{}, embedded{}, marshaler{}, time.Time{}, list{}, []any{}, struct {
		Body string
		mu   int
	}{}} {
		if err := Check(reflect.TypeOf(v)); err != nil {
			t.Errorf("%T: %v", v, err)
		}
	}
	if err := Check(reflect.TypeFor[error]()); err != nil {
		t.Error(err)
	}
	if _, err := (Codec{}).Marshal(errors.New("text")); err == nil {
		t.Error("an error was encoded")
	}
}
