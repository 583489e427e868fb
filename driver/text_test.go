package driver

import (
	"fmt"
	"strings"
	"testing"
	"unicode"
)

// Even a value that this version does not know has a name.
func TestStringsOfUnknownValues(t *testing.T) {
	for want, v := range map[string]fmt.Stringer{
		"yes": PromiseYes, "Promise(7)": Promise(7), "Promise(-1)": Promise(-1), "process": BoundToProcess, "Bound(3)": Bound(3), "durable": FenceDurable,
		"Fence(9)": Fence(9), "atomic": PromotionAtomic, "Promotion(4)": Promotion(4), "inherited": OutcomeInherited, "Outcome(5)": Outcome(5),
	} {
		if got := v.String(); got != want {
			t.Errorf("a value is called %q, want %q", got, want)
		}
	}
}

// The host of a holder comes from the server. It must not forge a line, or anything else, in the
// text of an error.
func TestHostsAreQuoted(t *testing.T) {
	for host, quoted := range map[string]bool{
		"web-3": false, "web-3.example.org": false, "fe80::1%eth0": false, "b\u00fccher.example": false, "": false,
		"a\nlevel=INFO msg=\"released\"": true, "\x1b[2J": true, "a b": true, "\u202egpj": true, "\xff": true, "a\u0085b": true, "a\u2028b": true,
	} {
		e := &HeldError{Holds: []Hold{{Holder: Holder{Host: host, PID: 7, Label: host}}}}
		text := e.Error()
		if got := strings.Contains(text, fmt.Sprintf("%q:7", host)); got != quoted {
			t.Errorf("the error for host %q reads %s", host, text)
		}
		if strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) {
			t.Errorf("the error for host %q is not printable: %q", host, text)
		}
	}
}
