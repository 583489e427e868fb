package phpcodec_test

import (
	"errors"
	"testing"

	"github.com/padlock-go/padlock/web/session/phpcodec"
)

// A class that implements Serializable may write references into its own data, as PHP does here:
// the object in wrap is the one in user. If user got another value, PHP would put that value into
// wrap, or would lose what wrap had. So the object must not be changed. A counter may be.
func TestObjectBeforeOpaque(t *testing.T) {
	const session = `user|O:8:"stdClass":0:{}n|i:1;wrap|C:4:"Wrap":4:{r:1;}`
	parse := func() *phpcodec.Document {
		d, err := phpcodec.Parse(phpcodec.PHP, []byte(session))
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	for _, raw := range []string{`i:5;`, `O:5:"Other":0:{}`} {
		d := parse()
		if err := d.Set("user", []byte(raw)); !errors.Is(err, phpcodec.ErrReferences) {
			t.Errorf("Set of the object to %s: %v, want ErrReferences", raw, err)
		}
		if got := string(encode(t, d)); got != session {
			t.Errorf("the session became %s", got)
		}
	}
	d := parse()
	if err := d.Set("n", []byte(`i:2;`)); err != nil {
		t.Errorf("Set of the counter: %v", err)
	}
	if err := d.Set("user", []byte(`O:8:"stdClass":0:{}`)); err != nil {
		t.Errorf("Set of the object to the same: %v", err)
	}
}

// A value that is only a reference may be shorter than the number of its target. It is still a
// reference, not malformed.
func TestShortReference(t *testing.T) {
	const session = `a|a:3:{i:0;i:1;i:1;i:2;i:2;O:8:"stdClass":0:{}}b|a:3:{i:0;i:1;i:1;i:2;i:2;O:8:"stdClass":0:{}}c|r:8;`
	d, err := phpcodec.Parse(phpcodec.PHP, []byte(session))
	if err != nil {
		t.Fatal(err)
	}
	raw, _ := d.Get("c")
	var v any
	if err := phpcodec.Unmarshal(raw, &v); !errors.Is(err, phpcodec.ErrReferences) {
		t.Errorf("Unmarshal of %s: %v, want ErrReferences", raw, err)
	}
	if _, err := phpcodec.Marshal(phpcodec.Raw(raw)); !errors.Is(err, phpcodec.ErrReferences) {
		t.Errorf("Marshal of %s: %v, want ErrReferences", raw, err)
	}
	if err := d.Set("c", raw); err != nil {
		t.Errorf("Set to the same value: %v", err)
	}
	if err := d.Set("d", raw); !errors.Is(err, phpcodec.ErrReferences) {
		t.Errorf("Set of another key: %v, want ErrReferences", err)
	}
}

// If a key of an array is there twice, the later value counts, as in PHP.
func TestKeyTwice(t *testing.T) {
	for raw, want := range map[string]string{
		`a:3:{i:0;b:0;i:0;s:3:"000";i:0;d:0;}`:             `a:1:{i:0;d:0;}`,
		`a:3:{i:0;i:1;s:1:"0";i:2;i:1;i:3;}`:               `a:2:{i:0;i:2;i:1;i:3;}`,
		`a:4:{s:1:"a";i:1;s:1:"b";i:2;s:1:"a";i:3;i:2;N;}`: `a:3:{s:1:"a";i:3;s:1:"b";i:2;i:2;N;}`,
	} {
		var v any
		if err := phpcodec.Unmarshal([]byte(raw), &v); err != nil {
			t.Fatal(err)
		}
		if got, err := phpcodec.Marshal(v); err != nil || string(got) != want {
			t.Errorf("%s became %s, %v, want %s", raw, got, err, want)
		}
	}
}
