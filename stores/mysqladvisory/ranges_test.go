package mysqladvisory

import (
	"errors"
	"testing"
	"time"

	"github.com/padlock-go/padlock/driver"
)

// The comments of the options say these ranges. Open checks them before it connects.
func TestRangesOfOptions(t *testing.T) {
	for _, c := range []struct {
		name  string
		valid bool
		opts  []Option
	}{
		{"nothing", true, nil},
		{"LossDelay(1999ms)", false, []Option{LossDelay(1999 * time.Millisecond)}},
		{"LossDelay(2s)", true, []Option{LossDelay(2 * time.Second)}},
		{"LossDelay(1h)", true, []Option{LossDelay(time.Hour), SessionTimeout(2 * time.Hour)}},
		{"LossDelay(61m)", false, []Option{LossDelay(61 * time.Minute), SessionTimeout(24 * time.Hour)}},
		{"SessionTimeout(9s)", false, []Option{SessionTimeout(9 * time.Second)}},
		{"SessionTimeout(10s)", true, []Option{SessionTimeout(10 * time.Second)}},
		{"SessionTimeout(10.5s)", false, []Option{SessionTimeout(10500 * time.Millisecond)}},
		{"SessionTimeout(24h)", true, []Option{SessionTimeout(24 * time.Hour)}},
		{"SessionTimeout(25h)", false, []Option{SessionTimeout(25 * time.Hour)}},
		{"MaxHolds(0)", false, []Option{MaxHolds(0)}},
		{"MaxHolds(1)", true, []Option{MaxHolds(1)}},
		{"a database", true, []Option{InSchema("Locks_2-$")}},
		{"a database with a dot", false, []Option{InSchema("a.b")}},
		{"any namespace", true, []Option{Namespace("a\x00 é")}},
		{"a namespace of Symfony", false, []Option{Namespace("a"), SymfonyLayout()}},
	} {
		cfg := defaults()
		for _, o := range c.opts {
			o(&cfg)
		}
		err := cfg.check()
		if (err == nil) != c.valid || err != nil && !errors.Is(err, driver.ErrInvalid) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}
