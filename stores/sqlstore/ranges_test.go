package sqlstore

import (
	"errors"
	"testing"
	"time"

	"github.com/padlock-go/padlock/driver"
)

// The comment of InSchema says which names are allowed.
func TestNamesOfSchemas(t *testing.T) {
	for name, valid := range map[string]bool{"": true, "Locks_2-b": true, "a.b": false, `a"b`: false, "a`b": false, "a b": false} {
		for _, e := range []Engine{PostgreSQL, MySQL, SQLite} {
			if _, err := tablesIn(e, name); (err == nil) != valid || err != nil && !errors.Is(err, driver.ErrInvalid) {
				t.Errorf("schema %q on %v: %v", name, e, err)
			}
		}
	}
}

// The comment of Keep says this range.
func TestRangeOfKeep(t *testing.T) {
	for d, want := range map[time.Duration]time.Duration{
		-time.Hour: -1, 0: -1, time.Second: 65 * time.Minute, 65 * time.Minute: 65 * time.Minute, 48 * time.Hour: 48 * time.Hour,
	} {
		var c config
		if Keep(d)(&c); c.keepFor() != want {
			t.Errorf("Keep(%v) keeps for %v, want %v", d, c.keepFor(), want)
		}
	}
	if c := (config{}); c.keepFor() != 24*time.Hour {
		t.Errorf("by default a row stays for %v", c.keepFor())
	}
}
