package safety_test

import (
	"fmt"
	"testing"

	"github.com/padlock-go/padlock/internal/safety"
)

// paper is a test that notes what it is told.
type paper []string

func (*paper) Helper() {}

func (p *paper) Errorf(format string, args ...any) { *p = append(*p, fmt.Sprintf(format, args...)) }

// Each function begins its message with the mark, and says nothing if the promise is kept.
func TestMessages(t *testing.T) {
	for _, c := range []struct {
		what string
		say  func(t safety.T) bool
		want string
	}{
		{"a fence that rises", func(t safety.T) bool { return safety.Rises(t, 9, 8) }, ""},
		{"the same fence", func(t safety.T) bool { return safety.Rises(t, 9, 9, "waiter", 3) }, "fence 9 after 9: waiter 3"},
		{"a falling fence", func(t safety.T) bool { return safety.Rises(t, uint64(8), 9) }, "fence 8 after 9"},
		{"a fence that stays", func(t safety.T) bool { return safety.Keeps(t, 9, 9) }, ""},
		{"a fence below", func(t safety.T) bool { return safety.Keeps(t, 8, 9) }, "fence 8 after 9"},
		{"two", func(t safety.T) bool { safety.TwoHold(t, "%d have it", 2); return false }, "two hold: 2 have it"},
		{"a refusal", func(t safety.T) bool { safety.Refused(t, fmt.Errorf("held"), "n"); return true }, ""},
		{"a grant", func(t safety.T) bool { safety.Refused(t, nil, "n"); return false }, `two hold: "n" is granted, and is not free`},
		{"early", func(t safety.T) bool { safety.TooEarly(t, "by %d s", 2); return false }, "too early: by 2 s"},
		{"another", func(t safety.T) bool { safety.Broken(t, "%v", safety.ErrTwoHold("a")); return false }, "two hold: a"},
	} {
		var p paper
		want := paper(nil)
		if c.want != "" {
			want = paper{safety.Mark + c.want}
		}
		if kept := c.say(&p); kept != (want == nil) || fmt.Sprint(p) != fmt.Sprint(want) {
			t.Errorf("%s: kept %v, said %q, want %q", c.what, kept, p, want)
		}
	}
}
