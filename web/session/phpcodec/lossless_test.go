package phpcodec_test

import (
	"errors"
	"math"
	"math/big"
	"reflect"
	"sync"
	"testing"
	"time"

	"github.com/padlock-go/padlock/web/session/phpcodec"
)

type colour string

func (c colour) String() string { return "colour " + string(c) }

// sameText is a type whose values all have the same text.
type sameText int

func (sameText) String() string { return "same" }

type bigNumber struct {
	B big.Int
	P *big.Int
	M map[string]big.Int
}

type hidden struct{ A, Both int }

type Shown struct{ B int }

type embeds struct {
	hidden
	Shown
	Both string
	C    int
}

// TestRoundTrip: if Marshal accepts a value, Unmarshal returns an equal one.
func TestRoundTrip(t *testing.T) {
	n, _ := new(big.Int).SetString("123456789012345678901234567890", 10)
	for _, v := range []any{
		map[time.Weekday]int{time.Sunday: 1, time.Friday: 2},
		map[colour]int{"red": 1, "5": 2},
		map[sameText]string{1: "a", 2: "b", 3: "c"},
		map[uint64]int{math.MaxUint64: 1, 7: 2, 10: 3},
		map[uint8]int{0: 1, 255: 2},
		map[string]int{"18446744073709551615": 1, "7": 2, "-0": 3},
		bigNumber{B: *n, P: n, M: map[string]big.Int{"k": *n}},
		embeds{hidden{1, 2}, Shown{3}, "x", 4},
		map[string]struct{}{"k": {}},
	} {
		raw, err := phpcodec.Marshal(v)
		if err != nil {
			t.Errorf("Marshal(%v): %v", v, err)
			continue
		}
		to := reflect.New(reflect.TypeOf(v))
		if err := phpcodec.Unmarshal(raw, to.Interface()); err != nil {
			t.Errorf("%T from %s: %v", v, raw, err)
		} else if got := to.Elem().Interface(); !reflect.DeepEqual(hide(got), hide(v)) {
			t.Errorf("%T from %s: %v, want %v", v, raw, got, v)
		}
		var any any
		if err := phpcodec.Unmarshal(raw, &any); err != nil {
			t.Errorf("%T from %s: %v", v, raw, err)
		} else if again, err := phpcodec.Marshal(any); err != nil || string(again) != string(raw) {
			t.Errorf("%s, read as any, became %s, %v", raw, again, err)
		}
	}
}

// hide clears the field that another field hides, because Marshal does not write it.
func hide(v any) any {
	if e, ok := v.(embeds); ok {
		e.hidden.Both = 0
		return e
	}
	return v
}

func TestEmbedded(t *testing.T) {
	const want = `a:4:{s:1:"A";i:1;s:5:"Shown";a:1:{s:1:"B";i:3;}s:4:"Both";s:1:"x";s:1:"C";i:4;}`
	if raw, err := phpcodec.Marshal(embeds{hidden{1, 2}, Shown{3}, "x", 4}); err != nil || string(raw) != want {
		t.Errorf("%s, %v", raw, err)
	}
}

type onlyHidden struct{ a, b int }

type byPointer struct {
	*hidden
	C int
}

type named struct {
	hidden `php:"h"`
}

type twoNames struct {
	A int `php:"x"`
	B int `php:"x"`
}

type leftOut struct {
	A int `php:"-"`
}

// TestNothingIsLostInSilence: a value that cannot be kept whole is an error, in
// both directions.
func TestNothingIsLostInSilence(t *testing.T) {
	for _, v := range []any{
		onlyHidden{1, 2}, &onlyHidden{}, []onlyHidden{{}}, struct{ M onlyHidden }{}, &sync.Mutex{}, byPointer{}, named{}, twoNames{},
		phpcodec.Array{{1.5, "x"}}, phpcodec.Array{{nil, "x"}}, phpcodec.Array{{"5", 1}, {5, 2}},
	} {
		if raw, err := phpcodec.Marshal(v); !errors.Is(err, phpcodec.ErrType) {
			t.Errorf("Marshal(%T) = %s, %v", v, raw, err)
		}
	}
	for _, to := range []any{new(onlyHidden), new(byPointer), new(named), new(twoNames)} {
		if err := phpcodec.Unmarshal([]byte(`a:1:{s:1:"a";i:1;}`), to); !errors.Is(err, phpcodec.ErrType) {
			t.Errorf("Unmarshal into %T: %v", to, err)
		}
	}
	if raw, err := phpcodec.Marshal(leftOut{1}); string(raw) != "a:0:{}" || err != nil {
		t.Errorf("%s, %v", raw, err)
	}
}

// TestNullIsTheZeroValue: null becomes the zero value of every type, including Object.
func TestNullIsTheZeroValue(t *testing.T) {
	o := phpcodec.Object{Class: "A", Raw: []byte("x")}
	if err := phpcodec.Unmarshal([]byte("N;"), &o); err != nil || o.Class != "" || o.Raw != nil {
		t.Errorf("%+v, %v", o, err)
	}
	a := phpcodec.Array{{"k", 1}}
	if err := phpcodec.Unmarshal([]byte("N;"), &a); err != nil || len(a) != 0 {
		t.Errorf("%+v, %v", a, err)
	}
	n := *big.NewInt(7)
	if err := phpcodec.Unmarshal([]byte("N;"), &n); err != nil || n.Sign() != 0 {
		t.Errorf("%v, %v", &n, err)
	}
}

// TestArrayGet: Get compares the values of keys, and does not call their String method.
func TestArrayGet(t *testing.T) {
	a := phpcodec.Array{{int64(0), "zero"}, {"red", "r"}}
	for key, want := range map[any]any{0: "zero", "0": "zero", time.Sunday: "zero", colour("red"): "r", "colour red": nil, 1.5: nil} {
		if got, ok := a.Get(key); got != want || ok != (want != nil) {
			t.Errorf("%v: %v %v", key, got, ok)
		}
	}
}
