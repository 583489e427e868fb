package sqlstore

import (
	"testing"

	"github.com/padlock-go/padlock/storekit/decide"
)

func TestTextRow(t *testing.T) {
	var b []byte
	var n int
	var u uint64
	var at decide.Time
	var text string
	err := textRow{`\x6162`, "9007199254740990", "5000000", "c", "", "7"}.Scan(&b, &u, &at, &text, &text, &n)
	if err != nil || string(b) != "ab" || u != 9007199254740990 || at != 5_000_000 || n != 7 {
		t.Errorf("%q, %d, %d, %d, %v", b, u, at, n, err)
	}
	for _, bad := range []textRow{{}, {"x"}, {`\xzz`}} {
		if err := bad.Scan(&b); err == nil {
			t.Errorf("%q is a byte string", []string(bad))
		}
	}
}
