package etcdstore

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/padlock-go/padlock/driver"
)

func coolingOf(k kind) kind {
	if k == shared {
		return coolingRd
	}
	return cooling
}

// leaseID returns the ID of the cool-down that has the given lease.
func leaseID(id clientv3.LeaseID) string { return strconv.FormatInt(int64(id), 16) }

// heldError returns an error that names the holds which keep a caller out. Later, untils sets the
// times when these holds end.
func (st *state) heldError(id string, reader bool) *driver.HeldError {
	err := &driver.HeldError{Waiters: st.waiters()}
	for i := range st.entries {
		e := &st.entries[i]
		// If a reader has to wait behind a waiting writer, the error names the readers that have
		// the lock.
		if e.kind != intending && (st.excludes(e, id, reader) || e.kind == shared && e.ID != id) {
			err.Holds = append(err.Holds, e.report())
		}
	}
	return err
}

// report returns the hold or cool-down as others see it. Its field Until contains the number of the
// lease, until the method untils replaces that by the time.
func (e *entry) report() driver.Hold {
	h := driver.Hold{Holder: e.Holder, Shared: e.kind == shared, Cooling: e.kind == cooling || e.kind == coolingRd}
	if e.Since > 0 {
		h.Since = time.UnixMicro(e.Since)
		if e.Holder.Plan > 0 {
			h.PlannedEnd = h.Since.Add(e.Holder.Plan)
		}
	}
	h.Until = time.Unix(0, int64(e.lease))
	return h
}

// maxUntils is how many requests for the time of a lease are sent at once.
const maxUntils = 16

// fillUntil replaces the number of the lease in each field Until by the time when the lease ends.
// It returns the latest of these times.
func (s *Store) fillUntil(ctx context.Context, holds []driver.Hold) (last time.Time) {
	ends := make(map[int64]time.Time)
	for i := range holds {
		ends[holds[i].Until.UnixNano()] = time.Time{}
	}
	var mu sync.Mutex
	var wg sync.WaitGroup
	slots := make(chan struct{}, maxUntils)
	for _, id := range slices.Collect(maps.Keys(ends)) { // a copy, because the goroutines change the map
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			if left := s.conn.timeLeft(ctx, clientv3.LeaseID(id)); left > 0 {
				mu.Lock()
				defer mu.Unlock()
				ends[id] = time.Now().Add(left)
			}
		})
	}
	wg.Wait()
	for i := range holds {
		h := &holds[i]
		h.Until = ends[h.Until.UnixNano()]
		if h.Cooling {
			h.PlannedEnd = h.Until
		}
		if h.Until.After(last) {
			last = h.Until
		}
	}
	return last
}

func (s *Store) endTimes(ctx context.Context, e *driver.HeldError) {
	e.Until = s.fillUntil(ctx, e.Holds)
}
