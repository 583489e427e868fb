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

// leaseID returns the number of a lease as text. It is the last part of the key of a cool-down.
func leaseID(id clientv3.LeaseID) string { return strconv.FormatInt(int64(id), 16) }

// heldError returns an error that names the holds that keep a token out. The error does not say yet
// when these holds end; see endTimes.
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

// report describes a hold or a cool-down for callers of the store. The field Until of the result is
// not a time yet, but the number of the lease. The method fillUntil replaces this number by the
// time at which the lease ends.
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

// maxUntils is how many leases a store looks up at the same time.
const maxUntils = 16

// fillUntil sets the field Until of each hold to the time at which the lease of the hold ends.
// Before the call, this field contains the number of the lease; see report. The result is the
// latest of these times.
func (s *Store) fillUntil(ctx context.Context, holds []driver.Hold) (last time.Time) {
	ends := make(map[int64]time.Time)
	for i := range holds {
		ends[holds[i].Until.UnixNano()] = time.Time{}
	}
	var mu sync.Mutex
	var wg sync.WaitGroup
	room := make(chan struct{}, maxUntils)
	for _, id := range slices.Collect(maps.Keys(ends)) { // a copy, because the goroutines change the map
		room <- struct{}{}
		wg.Go(func() {
			defer func() { <-room }()
			if left, err := s.conn.timeLeft(ctx, clientv3.LeaseID(id)); err == nil && left > 0 {
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
