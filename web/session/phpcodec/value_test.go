package phpcodec_test

import (
	"encoding/json"
	"errors"
	"math"
	"reflect"
	"testing"
	"time"

	"github.com/padlock-go/padlock/web/session/phpcodec"
)

type user struct {
	Name  string `php:"name"`
	Age   int    `php:"age,omitempty"`
	Tags  []string
	Extra map[string]any
	At    time.Time
	skip  int
	Not   string `php:"-"`
	Next  *user
}

func TestMarshal(t *testing.T) {
	for _, c := range []struct {
		v    any
		want string
	}{
		{nil, "N;"}, {true, "b:1;"}, {false, "b:0;"}, {-7, "i:-7;"}, {uint8(7), "i:7;"}, {"é|\x00", "s:4:\"é|\x00\";"},
		{[]byte("ab"), `s:2:"ab";`}, {1.5, "d:1.5;"}, {float32(0.5), "d:0.5;"}, {math.Inf(-1), "d:-INF;"}, {math.NaN(), "d:NAN;"}, {1e25, "d:1.0E+25;"},
		{[]int{4, 5}, "a:2:{i:0;i:4;i:1;i:5;}"}, {[]int(nil), "a:0:{}"}, {[2]bool{true}, "a:2:{i:0;b:1;i:1;b:0;}"},
		{map[string]int{"b": 1, "a": 2, "8": 3, "08": 4}, `a:4:{s:2:"08";i:4;i:8;i:3;s:1:"a";i:2;s:1:"b";i:1;}`},
		{map[int]string{2: "x", -1: "y"}, `a:2:{i:-1;s:1:"y";i:2;s:1:"x";}`},
		{phpcodec.Array{{"z", 1}, {int64(0), "x"}, {"5", nil}}, `a:3:{s:1:"z";i:1;i:0;s:1:"x";i:5;N;}`},
		{phpcodec.Object{Raw: []byte(`O:1:"A":0:{}`)}, `O:1:"A":0:{}`},
		{[]any{phpcodec.Raw("b:1;"), new(int)}, "a:2:{i:0;b:1;i:1;i:0;}"},
		{(*user)(nil), "N;"},
		{user{Name: "Bo", At: time.Unix(0, 0).UTC(), skip: 1}, `a:5:{s:4:"name";s:2:"Bo";s:4:"Tags";a:0:{}s:5:"Extra";a:0:{}s:2:"At";s:20:"1970-01-01T00:00:00Z";s:4:"Next";N;}`},
	} {
		if got, err := phpcodec.Marshal(c.v); err != nil || string(got) != c.want {
			t.Errorf("Marshal(%#v) = %q, %v, want %q", c.v, got, err, c.want)
		}
	}
}

func TestMarshalRefuses(t *testing.T) {
	loop := &user{}
	loop.Next = loop
	for _, v := range []any{make(chan int), func() {}, uint64(math.MaxUint64), map[float64]int{1: 1}, loop, complex(1, 2)} {
		if got, err := phpcodec.Marshal(v); !errors.Is(err, phpcodec.ErrType) {
			t.Errorf("Marshal(%T) = %.20q, %v", v, got, err)
		}
	}
	if _, err := phpcodec.Marshal(phpcodec.Raw("i:1")); !errors.Is(err, phpcodec.ErrSyntax) {
		t.Error(err)
	}
	if _, err := phpcodec.Marshal([]any{phpcodec.Object{Raw: []byte(`O:1:"A":1:{i:0;r:1;}`)}}); !errors.Is(err, phpcodec.ErrReferences) {
		t.Error(err)
	}
}

func TestUnmarshal(t *testing.T) {
	full := user{Name: "Bo", Age: 3, Tags: []string{"x", "y"}, Extra: map[string]any{"k": int64(1)}, At: time.Unix(5, 0).UTC(), Next: &user{Tags: []string{}, Extra: map[string]any{}}}
	raw, err := phpcodec.Marshal(full)
	if err != nil {
		t.Fatal(err)
	}
	check(t, string(raw), full)
	check(t, "i:5;", 5)
	check(t, "i:5;", 5.0)
	check(t, "d:5;", int8(5))
	check(t, "N;", 0)
	check(t, "N;", (*int)(nil))
	check(t, `s:2:"ab";`, []byte("ab"))
	check(t, `a:1:{i:3;s:1:"x";}`, map[int]string{3: "x"})
	check(t, `a:1:{i:3;s:1:"x";}`, map[string]string{"3": "x"})
	check(t, "a:2:{i:0;i:1;i:1;i:2;}", [2]int{1, 2})
	check(t, `E:11:"Suit:Hearts";`, phpcodec.Object{Class: "Suit:Hearts", Raw: []byte(`E:11:"Suit:Hearts";`)})
	checkAny(t, `a:3:{s:1:"z";d:1.5;i:0;b:1;s:1:"o";O:1:"A":0:{}}`, phpcodec.Array{{"z", 1.5}, {int64(0), true}, {"o", phpcodec.Object{Class: "A", Raw: []byte(`O:1:"A":0:{}`)}}})
}

func check[T any](t *testing.T, data string, want T) {
	t.Helper()
	var got T
	if err := phpcodec.Unmarshal([]byte(data), &got); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("Unmarshal(%q) = %#v, %v, want %#v", data, got, err, want)
	}
}

func checkAny(t *testing.T, data string, want any) {
	t.Helper()
	var got any
	if err := phpcodec.Unmarshal([]byte(data), &got); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("Unmarshal(%q) = %#v, %v, want %#v", data, got, err, want)
	}
}

func TestUnmarshalRefuses(t *testing.T) {
	for _, c := range []struct {
		data string
		to   any
		want error
	}{
		{"i:300;", new(int8), phpcodec.ErrType}, {"i:-1;", new(uint), phpcodec.ErrType}, {"d:1.5;", new(int), phpcodec.ErrType},
		{`s:1:"1";`, new(int), phpcodec.ErrType}, {"i:1;", new(string), phpcodec.ErrType}, {"b:1;", new(int), phpcodec.ErrType},
		{"a:1:{i:1;N;}", new([]int), phpcodec.ErrType}, {"a:2:{i:0;N;i:1;N;}", new([1]int), phpcodec.ErrType}, {`O:1:"A":0:{}`, new(user), phpcodec.ErrType},
		{"i:1;", new(phpcodec.Object), phpcodec.ErrType}, {"i:1;", 5, phpcodec.ErrType}, {"i:1;", (*int)(nil), phpcodec.ErrType},
		{"a:1:{i:0;R:1;}", new(any), phpcodec.ErrReferences}, {"i:1;x", new(int), phpcodec.ErrSyntax}, {"", new(int), phpcodec.ErrSyntax},
		{`s:1:"x";`, new(time.Time), nil},
	} {
		err := phpcodec.Unmarshal([]byte(c.data), c.to)
		if err == nil || c.want != nil && !errors.Is(err, c.want) {
			t.Errorf("Unmarshal(%q, %T): %v, want %v", c.data, c.to, err, c.want)
		}
	}
}

// TestFloatsAsPHPWritesThem compares the text of floats with the text that PHP writes.
func TestFloatsAsPHPWritesThem(t *testing.T) {
	numbers := []float64{0.1, 1e14, 1e15, 1e16, 9.9e16, 1e17, 1.5e17, 12345678901234567, 123456789012345678, 1e25, 1e-3, 1e-4, 9.99e-5, 1e-5, 1.5e-5, 0.00012345, 1, 100000,
		1.0 / 3, math.SmallestNonzeroFloat64, math.MaxFloat64, -2.5e-300, 1e21, 0.1 + 0.2, math.Pi * 1e100, math.Copysign(0, -1)}
	var lines []string
	for _, f := range numbers {
		b, _ := json.Marshal(f)
		text := string(b)
		if f == math.Trunc(f) && math.Abs(f) < 1e21 {
			text += ".0"
		}
		lines = append(lines, text)
	}
	for i, line := range runPHP(t, phpcodec.PHP, "serialize", lines) {
		var want []byte
		if err := json.Unmarshal(line, &want); err != nil {
			t.Fatal(err)
		}
		if got, _ := phpcodec.Marshal(numbers[i]); string(got) != string(want) {
			t.Errorf("%v: %q, PHP writes %q", numbers[i], got, want)
		}
	}
}

func TestSame(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want bool
	}{
		{"d:0.1;", "d:0.10000000000000001;", true}, {"d:0.1;", "d:0.2;", false}, {"d:1;", "i:1;", false}, {"d:NAN;", "d:NAN;", true},
		{`a:2:{s:3:"d:1";d:1e3;i:0;N;}`, `a:2:{s:3:"d:1";d:1000;i:0;N;}`, true}, {`s:6:"d:0.1;";`, `s:6:"d:.10;";`, false},
		{`C:1:"A":6:{d:0.1;}`, `C:1:"A":6:{d:.10;}`, false}, {"d:0;", "d:-0;", false}, {"", "", true}, {"", "N;", false},
	} {
		if got := phpcodec.Same([]byte(c.a), []byte(c.b)); got != c.want {
			t.Errorf("Same(%q, %q) = %v", c.a, c.b, got)
		}
	}
	// PHP itself changes the digits when its setting changes.
	old := []byte("f|d:0.1;g|a:1:{i:0;d:0.2;}")
	now := askPHP(t, phpcodec.PHP, [][]byte{old}, "serialize_precision=17")[0].Data
	a, _ := phpcodec.Parse(phpcodec.PHP, old)
	b, err := phpcodec.Parse(phpcodec.PHP, now)
	if err != nil || string(now) == string(old) {
		t.Fatalf("php wrote %q: %v", now, err)
	}
	for _, k := range []string{"f", "g"} {
		x, _ := a.Get(k)
		y, _ := b.Get(k)
		if !phpcodec.Same(x, y) {
			t.Errorf("%q and %q", x, y)
		}
	}
}

func TestIncr(t *testing.T) {
	for _, c := range []struct {
		old   string
		delta int64
		want  string // "" if refused
	}{
		{"i:5;", 1, "i:6;"}, {"i:5;", -6, "i:-1;"}, {"i:9223372036854775807;", 1, ""}, {"i:-9223372036854775808;", -1, ""},
		{"d:1.5;", 1, ""}, {`s:1:"5";`, 1, ""}, {"i:5;i:6;", 1, ""}, {"", 1, ""},
	} {
		got, ok := phpcodec.Incr([]byte(c.old), c.delta)
		if string(got) != c.want || ok != (c.want != "") {
			t.Errorf("Incr(%q, %d) = %q, %v", c.old, c.delta, got, ok)
		}
	}
	if got, ok := phpcodec.Incr(nil, 3); !ok || string(got) != "i:3;" {
		t.Errorf("%q", got)
	}
}

func TestArray(t *testing.T) {
	a := phpcodec.Array{{int64(0), "x"}, {int64(1), "y"}, {"k", nil}}
	if v, ok := a.Get("1"); !ok || v != "y" {
		t.Error(v, ok)
	}
	if _, ok := a.Get("z"); ok {
		t.Error("z")
	}
}
