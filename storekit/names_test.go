package storekit_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/padlock-go/padlock/storekit"
)

var escaping = storekit.Escaping{Plain: "abcdefghijklmnopqrstuvwxyz0123456789-.", NotFirst: "."}

func ExampleEscaping() {
	keys := storekit.Escaping{Plain: "abcdefghijklmnopqrstuvwxyz-.", NotFirst: "."}
	fmt.Println(keys.Escape("nightly report"), keys.Escape("../a"))
	fmt.Println(keys.Unescape("nightly%20report"))
	// Output:
	// nightly%20report %2E.%2Fa
	// nightly report true
}

// Every byte, at the beginning and inside, has a key of its own from which the name comes back.
func TestEscapeEveryByte(t *testing.T) {
	seen := map[string]string{}
	for c := range 256 {
		for _, name := range []string{string([]byte{byte(c)}), "a" + string([]byte{byte(c)}), string([]byte{byte(c), 'a'})} {
			key := escaping.Escape(name)
			if other, taken := seen[key]; taken && other != name {
				t.Errorf("%q and %q have the key %q", name, other, key)
			}
			seen[key] = name
			if strings.Trim(key, escaping.Plain+"%ABCDEF") != "" || strings.HasPrefix(key, ".") {
				t.Errorf("the key of %q is %q", name, key)
			}
			if back, ok := escaping.Unescape(key); back != name || !ok {
				t.Errorf("the key %q of %q leads to %q, %v", key, name, back, ok)
			}
		}
	}
}

// A key that Escape does not make is the key of no name.
func TestUnescapeForeignKeys(t *testing.T) {
	for _, key := range []string{"", "%", "%2", "a%", "%61", "%2e", "%GG", "%:0", ".a", "a/b", "A", "%%", "a%2", "%\xff\xff"} {
		if name, ok := escaping.Unescape(key); ok {
			t.Errorf("the key %q is taken for the name %q", key, name)
		}
	}
}

func TestPercentIsNeverPlain(t *testing.T) {
	if key := (storekit.Escaping{Plain: "a%"}).Escape("a%"); key != "a%25" {
		t.Errorf("the key is %q", key)
	}
}

func TestEscapeKeepsBeginnings(t *testing.T) {
	name := "../a b%\x00é"
	for i := range len(name) {
		if !strings.HasPrefix(escaping.Escape(name), escaping.Escape(name[:i])) {
			t.Errorf("the key of %q does not begin with that of %q", name, name[:i])
		}
	}
}

func TestEscapePlainAllocatesNothing(t *testing.T) {
	if n := testing.AllocsPerRun(100, func() { escaping.Escape("nightly-report") }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
