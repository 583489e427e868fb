package metrics_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/observe/metrics"
	"github.com/padlock-go/padlock/stores/memstore"
)

// Each time is counted once, for its own mode.
func TestTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := metrics.New()
		l := padlock.New(memstore.New(), padlock.Observe(m))
		defer l.Close(t.Context())
		hold := func(times int, d time.Duration, opts ...padlock.Option) {
			for range times {
				k, err := l.Acquire(t.Context(), "nightly-report", opts...)
				if err != nil {
					t.Fatal(err)
				}
				<-time.After(d)
				if err := k.Release(); err != nil {
					t.Error(err)
				}
			}
		}
		hold(5, time.Microsecond)
		has(t, m,
			`padlock_lock_wait_seconds_count{store="memory",group="nightly-report",mode="exclusive",outcome="acquired"} 5`,
			`padlock_lock_use_seconds_count{store="memory",group="nightly-report",mode="exclusive",outcome="released"} 5`,
			`padlock_lock_use_seconds_sum{store="memory",group="nightly-report",mode="exclusive",outcome="released"} 5e-06`,
			`padlock_locks{store="memory",group="nightly-report"} 0`)
		hold(3, 2*time.Second, padlock.Shared())
		has(t, m,
			`padlock_lock_wait_seconds_count{store="memory",group="nightly-report",mode="exclusive",outcome="acquired"} 5`,
			`padlock_lock_wait_seconds_count{store="memory",group="nightly-report",mode="shared",outcome="acquired"} 3`,
			`padlock_lock_use_seconds_count{store="memory",group="nightly-report",mode="shared",outcome="released"} 3`,
			`padlock_lock_use_seconds_sum{store="memory",group="nightly-report",mode="shared",outcome="released"} 6`,
			`padlock_lock_use_seconds_bucket{store="memory",group="nightly-report",mode="shared",outcome="released",le="1"} 0`)
		held, err := l.Acquire(t.Context(), "nightly-report")
		if err != nil {
			t.Fatal(err)
		}
		has(t, m, `padlock_locks{store="memory",group="nightly-report"} 1`)
		held.Release()
	})
}
