package phpcodec_test

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/padlock-go/padlock/web/session/phpcodec"
)

func TestFixturesKeptByteForByte(t *testing.T) {
	for _, f := range fixtures(t) {
		d := f.parse(t)
		if got := encode(t, d); !bytes.Equal(got, f.Data) {
			t.Errorf("%s in %s: %q became %q", f.Name, f.Handler, f.Data, got)
		}
		if f.Values == nil {
			continue
		}
		if d.Len() != len(f.Values) {
			t.Errorf("%s in %s: %d keys, want %d", f.Name, f.Handler, d.Len(), len(f.Values))
			continue
		}
		for i, v := range f.Values {
			key, raw := d.At(i)
			want, _ := base64.StdEncoding.DecodeString(v[1])
			if key != v[0] || !bytes.Equal(raw, want) {
				t.Errorf("%s in %s: number %d is %q %q, want %q %q", f.Name, f.Handler, i, key, raw, v[0], want)
			}
		}
	}
}

// TestFixturesGetNewKeys adds a key to every fixture and asks real PHP whether everything else is
// unchanged.
func TestFixturesGetNewKeys(t *testing.T) {
	all := fixtures(t)
	for _, h := range handlers {
		t.Run(string(h), func(t *testing.T) {
			t.Parallel()
			var before, after [][]byte
			var names []string
			for _, f := range all {
				if f.Handler != h {
					continue
				}
				d := f.parse(t)
				if err := d.Set("from go", []byte(`a:1:{i:0;s:4:"new!";}`)); err != nil {
					t.Errorf("%s: %v", f.Name, err)
				}
				before, after, names = append(before, f.Data), append(after, encode(t, d)), append(names, f.Name)
			}
			was, is := askPHP(t, h, before), askPHP(t, h, after)
			for i := range was {
				keys, values := len(was[i].Keys), was[i].Values
				if !is[i].OK || len(is[i].Keys) != keys+1 || is[i].Keys[keys] != "from go" {
					t.Errorf("%s: php read the keys %q", names[i], is[i].Keys)
					continue
				}
				if fmt.Sprintf("%q", is[i].Values[:keys]) != fmt.Sprintf("%q", values) {
					t.Errorf("%s: php read %q, before %q", names[i], is[i].Values[:keys], values)
				}
				if !bytes.Equal(is[i].Data, after[i]) {
					t.Errorf("%s: php writes %q, we wrote %q", names[i], is[i].Data, after[i])
				}
			}
		})
	}
}

// TestEveryChangeIsRightOrRefused changes and deletes every key of every
// fixture. Where that is not refused, PHP must see all other values as they
// were, references included.
func TestEveryChangeIsRightOrRefused(t *testing.T) {
	all := fixtures(t)
	for _, h := range handlers {
		t.Run(string(h), func(t *testing.T) {
			t.Parallel()
			var sessions [][]byte
			var without []string // what PHP must see at the other keys
			var names []string
			refused := 0
			for _, f := range all {
				if f.Handler != h {
					continue
				}
				was := askPHP(t, h, [][]byte{f.Data})[0]
				for i := range f.parse(t).Len() {
					for _, raw := range []string{"", "i:1;", "a:2:{i:0;N;i:1;N;}"} {
						d := f.parse(t)
						key, _ := d.At(i)
						err := change(d, key, raw)
						if errors.Is(err, phpcodec.ErrReferences) {
							refused++
							continue
						}
						if err != nil {
							t.Errorf("%s: key %q: %v", f.Name, key, err)
						}
						sessions = append(sessions, encode(t, d))
						without = append(without, otherValues(was, key))
						names = append(names, fmt.Sprintf("%s: %q = %q", f.Name, key, raw))
					}
				}
			}
			for i, is := range askPHP(t, h, sessions) {
				key := strings.Split(names[i], `"`)[1]
				if got := otherValues(is, key); !is.OK || got != without[i] {
					t.Errorf("%s: php now reads %s, before %s", names[i], got, without[i])
				}
			}
			if refused == 0 || len(sessions) < 50 {
				t.Errorf("%d refused, %d done: the fixtures show nothing", refused, len(sessions))
			}
		})
	}
}

func change(d *phpcodec.Document, key, raw string) error {
	if raw == "" {
		return d.Delete(key)
	}
	return d.Set(key, []byte(raw))
}

// otherValues lists the values of all keys except key.
func otherValues(s phpSession, key string) string {
	var b strings.Builder
	for i, k := range s.Keys {
		if k != key {
			fmt.Fprintf(&b, "%q: %q, ", k, s.Values[i])
		}
	}
	return b.String()
}

func TestSetKeepsPlaces(t *testing.T) {
	d, err := phpcodec.Parse(phpcodec.PHP, []byte("a|i:1;b|d:0.10000000000000001;c|i:3;"))
	if err != nil {
		t.Fatal(err)
	}
	for _, err := range []error{d.Set("a", []byte(`s:1:"x";`)), d.Delete("c"), d.Set("d", []byte("N;")), d.Set("c", []byte("b:1;"))} {
		if err != nil {
			t.Error(err)
		}
	}
	if got := string(encode(t, d)); got != `a|s:1:"x";b|d:0.10000000000000001;d|N;c|b:1;` {
		t.Error(got)
	}
}

func TestSetRefuses(t *testing.T) {
	for _, c := range []struct {
		h        phpcodec.Handler
		key, raw string
		want     error
	}{
		{phpcodec.PHP, "a|b", "N;", phpcodec.ErrKey},
		{phpcodec.PHP, "5", "N;", phpcodec.ErrKey},
		{phpcodec.PHP, "-5", "N;", phpcodec.ErrKey},
		{phpcodec.PHP, "05", "N;", nil},
		{phpcodec.PHP, "", "N;", phpcodec.ErrKey},
		{phpcodec.PHPBinary, "a|b", "N;", nil},
		{phpcodec.PHPBinary, strings.Repeat("k", 127), "N;", nil},
		{phpcodec.PHPBinary, strings.Repeat("k", 128), "N;", phpcodec.ErrKey},
		{phpcodec.PHPBinary, "9223372036854775808", "N;", nil},
		{phpcodec.PHPSerialize, "5", "N;", nil},
		{phpcodec.PHPSerialize, "", "N;", nil},
		{phpcodec.PHP, "k", "i:1;i:2;", phpcodec.ErrSyntax},
		{phpcodec.PHP, "k", "R:1;", phpcodec.ErrReferences},
		{phpcodec.PHP, "k", `a:1:{i:0;r:1;}`, phpcodec.ErrReferences},
	} {
		d := phpcodec.New(c.h)
		if err := d.Set(c.key, []byte(c.raw)); !errors.Is(err, c.want) {
			t.Errorf("%s: Set(%.20q, %q): %v, want %v", c.h, c.key, c.raw, err, c.want)
		}
		if n := d.Len(); (c.want == nil) != (n == 1) {
			t.Errorf("%s: Set(%.20q, %q) left %d keys", c.h, c.key, c.raw, n)
		}
	}
}

// TestKeysThatPHPKeeps checks CheckKey against PHP: PHP keeps every key that CheckKey allows.
func TestKeysThatPHPKeeps(t *testing.T) {
	keys := []string{"a", "05", "-0", "a b", "!x", "é", "\x00x", "a\x00b", "9223372036854775808", "-5", "5", "1.5", strings.Repeat("k", 127), strings.Repeat("k", 300), "x|y"}
	for _, h := range handlers {
		d := phpcodec.New(h)
		for _, k := range keys {
			if phpcodec.CheckKey(h, k) == nil {
				if err := d.Set(k, []byte("i:1;")); err != nil {
					t.Error(err)
				}
			}
		}
		data := encode(t, d)
		if is := askPHP(t, h, [][]byte{data})[0]; !is.OK || len(is.Keys) != d.Len() || !bytes.Equal(is.Data, data) {
			t.Errorf("%s: php read %q and wrote %q; it was %q", h, is.Keys, is.Data, data)
		}
	}
}

func TestHostileInput(t *testing.T) {
	deep := func(n int) string { return strings.Repeat("a:1:{i:0;", n) + "N;" + strings.Repeat("}", n) }
	for name, c := range map[string]struct {
		data string
		want error
	}{
		"deep enough":        {"k|" + deep(phpcodec.MaxDepth), nil},
		"too deep":           {"k|" + deep(phpcodec.MaxDepth+1), phpcodec.ErrSyntax},
		"nesting cut off":    {"k|" + strings.Repeat("a:1:{i:0;", 100), phpcodec.ErrSyntax},
		"many declared":      {"k|a:2:{i:0;N}", phpcodec.ErrSyntax},
		"more than there is": {"k|a:2:{i:0;N;}", phpcodec.ErrSyntax},
		"fewer":              {"k|a:0:{i:0;N;}", phpcodec.ErrSyntax},
		"length overflows":   {`k|s:99999999999999999999999999:"x";`, phpcodec.ErrSyntax},
		"negative length":    {`k|s:-1:"x";`, phpcodec.ErrSyntax},
		"string too long":    {`k|s:4:"x";`, phpcodec.ErrSyntax},
		"no quote":           {`k|s:1:xx;`, phpcodec.ErrSyntax},
		"igbinary":           {"\x00\x00\x00\x02\x14\x01", phpcodec.ErrIgbinary},
		"no bar":             {"k", phpcodec.ErrSyntax},
		"cut off":            {"k|i:1", phpcodec.ErrSyntax},
		"key twice":          {"k|i:1;k|i:2;", phpcodec.ErrSyntax},
		"array key twice":    {"k|a:2:{i:0;N;i:0;N;}", nil},
		"big integer":        {"k|i:99999999999999999999;", phpcodec.ErrSyntax},
		"hex float":          {"k|d:0x1p3;", phpcodec.ErrSyntax},
		"odd bool":           {"k|b:2;", phpcodec.ErrSyntax},
		"object without end": {`k|O:1:"A":1:{s:1:"x";i:1;`, phpcodec.ErrSyntax},
		"custom too long":    {`k|C:1:"A":99:{x}`, phpcodec.ErrSyntax},
		"unknown":            {"k|x:1;", phpcodec.ErrSyntax},
		"reference to 0":     {"k|R:0;", phpcodec.ErrSyntax},
		"big":                {"k|" + fmt.Sprintf("s:%d:%q;", phpcodec.MaxSize, strings.Repeat("x", phpcodec.MaxSize)), phpcodec.ErrSyntax},
		"many keys":          {manyKeys(phpcodec.MaxKeys + 1), phpcodec.ErrSyntax},
	} {
		if _, err := phpcodec.Parse(phpcodec.PHP, []byte(c.data)); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
}

func manyKeys(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "k%d|N;", i)
	}
	return b.String()
}

// TestDeclaredIsNotBelieved: an array that declares too many elements is refused before any element
// is read.
func TestDeclaredIsNotBelieved(t *testing.T) {
	_, err := phpcodec.Parse(phpcodec.PHP, []byte("k|a:2:{i:0;N;}"))
	if err == nil || !strings.Contains(err.Error(), "more elements than bytes") {
		t.Error(err)
	}
}

// TestDepthOfSerialize: in php_serialize the session itself is an array, so it is one level of
// depth.
func TestDepthOfSerialize(t *testing.T) {
	for depth, want := range map[int]error{phpcodec.MaxDepth - 1: nil, phpcodec.MaxDepth: phpcodec.ErrSyntax} {
		data := "a:1:{s:1:\"k\";" + strings.Repeat("a:1:{i:0;", depth) + "N;" + strings.Repeat("}", depth) + "}"
		if _, err := phpcodec.Parse(phpcodec.PHPSerialize, []byte(data)); !errors.Is(err, want) {
			t.Errorf("%d: %v", depth, err)
		}
	}
}

// TestReferencesRefused: a change must not split a variable that two keys share. Nor may it shift
// the slots before an object of C:, because the slots inside of that object are unknown.
func TestReferencesRefused(t *testing.T) {
	const custom = `C:1:"A":1:{x}`
	for _, c := range []struct {
		data, key, raw string
		want           error
	}{
		{"a|i:1;b|R:1;", "a", "i:2;", phpcodec.ErrReferences},
		{"a|i:1;b|R:1;", "b", "i:2;", phpcodec.ErrReferences},
		{"a|i:1;b|R:1;", "b", "", nil},
		{"a|i:1;b|R:1;", "b", "R:1;", nil}, // the value that is there already
		{"a|i:1;x|i:5;b|R:1;", "x", "a:1:{i:0;N;}", nil},
		{"x|i:5;a|i:1;b|R:2;", "x", "a:1:{i:0;N;}", phpcodec.ErrReferences},
		{"x|i:5;a|i:1;b|R:2;", "x", "b:1;", nil},
		{"x|i:5;c|" + custom, "x", "b:1;", nil},
		{"x|i:5;c|" + custom, "x", "a:1:{i:0;N;}", phpcodec.ErrReferences},
		{"x|i:5;c|" + custom, "c", "N;", nil},
		{"c|" + custom + "x|i:5;", "x", "a:1:{i:0;N;}", nil},
		{"c|" + custom + "x|i:5;a|i:1;b|R:9;", "x", "i:6;", phpcodec.ErrReferences},
	} {
		d, err := phpcodec.Parse(phpcodec.PHP, []byte(c.data))
		if err != nil {
			t.Fatal(err)
		}
		if err := change(d, c.key, c.raw); !errors.Is(err, c.want) {
			t.Errorf("%s: %q = %q: %v, want %v", c.data, c.key, c.raw, err, c.want)
		}
	}
}
