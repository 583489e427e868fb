package phpcodec_test

import (
	"bytes"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/padlock-go/padlock/web/session/phpcodec"
)

func deepArray(n int) string {
	return strings.Repeat("a:1:{i:0;", n) + "N;" + strings.Repeat("}", n)
}

// TestDeepSessions: nested values are kept byte for byte, as deep as PHP itself can read them,
// while Go changes other keys. They can be decoded too.
func TestDeepSessions(t *testing.T) {
	for _, h := range handlers {
		depth := phpcodec.MaxDepth
		if h == phpcodec.PHPSerialize {
			depth--
		}
		d := phpcodec.New(h)
		deep := []byte(deepArray(depth))
		if err := errors.Join(d.Set("deep", deep), d.Set("n", []byte("i:1;"))); err != nil {
			t.Fatal(err)
		}
		data := encode(t, d)
		if is := askPHP(t, h, [][]byte{data})[0]; !is.OK || !bytes.Equal(is.Data, data) {
			t.Errorf("%s: PHP does not read arrays in %d others", h, depth)
		}
		again, err := phpcodec.Parse(h, data)
		if err != nil {
			t.Fatal(err)
		}
		if err := again.Set("n", []byte("i:2;")); err != nil || !bytes.Contains(encode(t, again), deep) {
			t.Errorf("%s: %v", h, err)
		}
		var v any
		if err := phpcodec.Unmarshal(deep, &v); err != nil {
			t.Errorf("%s: %v", h, err)
		} else if raw, err := phpcodec.Marshal(v); err != nil || !bytes.Equal(raw, deep) {
			t.Errorf("%s: what was read is not written as it was: %v", h, err)
		}
		if err := again.Set("x", []byte(deepArray(depth+1))); !errors.Is(err, phpcodec.ErrLimit) {
			t.Errorf("%s: a value that cannot be read again was set: %v", h, err)
		}
	}
}

// TestBeyondLimits: the message says that it is a limit.
func TestBeyondLimits(t *testing.T) {
	for data, want := range map[string]string{
		"k|" + deepArray(phpcodec.MaxDepth+1):   "nested deeper than 4096 at byte",
		manyKeys(phpcodec.MaxKeys + 1):          "more than 65536 keys",
		strings.Repeat("x", phpcodec.MaxSize+1): "4194305 bytes, at most 4194304 are read",
	} {
		_, err := phpcodec.Parse(phpcodec.PHP, []byte(data))
		if !errors.Is(err, phpcodec.ErrLimit) || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "malformed") {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// TestKeysBeyondTheLimit: a session that could not be read again is not written.
func TestKeysBeyondTheLimit(t *testing.T) {
	d, err := phpcodec.Parse(phpcodec.PHP, []byte(manyKeys(phpcodec.MaxKeys)))
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Set("one more", []byte("N;")); !errors.Is(err, phpcodec.ErrLimit) {
		t.Errorf("a key too many: %v", err)
	}
	if err := errors.Join(d.Set("k0", []byte("i:1;")), d.Delete("k1"), d.Set("one more", []byte("N;"))); err != nil {
		t.Error(err)
	}
	if _, err := phpcodec.Parse(phpcodec.PHP, encode(t, d)); err != nil {
		t.Error(err)
	}
}

// TestReferencesAfterEdits compares a document that was edited with the same
// one read anew: both allow the same changes.
func TestReferencesAfterEdits(t *testing.T) {
	const custom = `C:1:"A":1:{x}`
	for _, data := range []string{"a|i:1;x|i:5;y|a:1:{i:0;N;}b|R:1;c|i:7;", "a|i:1;x|i:5;y|i:2;b|R:3;c|i:7;", "x|i:5;a|i:1;c|" + custom + "y|i:1;b|R:1;"} {
		for _, first := range []string{"x", "y", "c", "new"} {
			for _, raw := range []string{"", "i:9;", "a:1:{i:0;N;}", custom} {
				for _, second := range []string{"a", "x", "y", "b", "c"} {
					d, err := phpcodec.Parse(phpcodec.PHP, []byte(data))
					if err != nil {
						t.Fatal(err)
					}
					_ = change(d, first, raw)
					anew, err := phpcodec.Parse(phpcodec.PHP, encode(t, d))
					if err != nil {
						t.Fatal(err)
					}
					for _, then := range []string{"", "i:9;", "a:1:{i:0;N;}"} {
						got, want := change(d, second, then), change(anew, second, then)
						if !reflect.DeepEqual(got, want) || !bytes.Equal(encode(t, d), encode(t, anew)) {
							t.Errorf("%s: %s = %q, then %s = %q: %v, read anew %v", data, first, raw, second, then, got, want)
						}
					}
				}
			}
		}
	}
}

// TestEncodeIsNotNil: a session without keys is a value without bytes.
func TestEncodeIsNotNil(t *testing.T) {
	for _, h := range handlers {
		if b, err := phpcodec.New(h).Encode(); b == nil || err != nil {
			t.Errorf("%s: %v %v", h, b, err)
		}
	}
}
