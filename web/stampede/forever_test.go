package stampede_test

import (
	"errors"
	"math"
	"testing"
	"time"

	"github.com/padlock-go/padlock/web/stampede"
)

// The longest Duration means "for ever" in every option. Two such times, added up, are no time in
// the past.
func TestForever(t *testing.T) {
	const forever = time.Duration(math.MaxInt64)
	for name, c := range map[string]struct {
		ttl   time.Duration
		opts  []stampede.Option
		after time.Duration // when the value is asked for again
		runs  int64         // how often the function has run by then
	}{
		"fresh for ever":                    {ttl: forever, after: time.Hour, runs: 1},
		"fresh for ever, then stale":        {ttl: forever, opts: []stampede.Option{stampede.Stale(time.Hour)}, after: time.Hour, runs: 1},
		"fresh for ever, with jitter":       {ttl: forever, opts: []stampede.Option{stampede.Jitter(1)}, after: time.Minute, runs: 1},
		"stale for ever, while fresh":       {ttl: time.Hour, opts: []stampede.Option{stampede.Stale(forever)}, after: time.Minute, runs: 1},
		"used for ever after an error":      {ttl: time.Hour, opts: []stampede.Option{stampede.StaleIfError(forever)}, after: time.Minute, runs: 1},
		"early, with the greatest of betas": {ttl: time.Hour, opts: []stampede.Option{stampede.Early(math.MaxFloat64)}, after: time.Minute, runs: 2},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				f := newFleet(t, 1, c.opts...)
				work := &counter{takes: time.Second}
				for range 2 {
					if _, err := stampede.Remember(t.Context(), f.caches[0], "k", c.ttl, work.fn); err != nil {
						t.Error(err)
					}
					<-time.After(c.after)
				}
				if n := work.runs.Load(); n != c.runs {
					t.Errorf("the function ran %d times, want %d", n, c.runs)
				}
			})
		})
	}
}

// With the longest StaleIfError a stale value is served, however old it is, and so is a file.
func TestStaleIfErrorForever(t *testing.T) {
	const forever = time.Duration(math.MaxInt64)
	bubble(t, func(t *testing.T) {
		f := newFleet(t, 1, stampede.StaleIfError(forever))
		work := &counter{takes: time.Second}
		for range 2 {
			v, err := stampede.Remember(t.Context(), f.caches[0], "k", time.Minute, work.fn)
			if v != "value 1" || err != nil {
				t.Errorf("got %q, %v", v, err)
			}
			<-time.After(time.Hour)
			work.fail(errors.New("the database is down"))
		}
	})
}
