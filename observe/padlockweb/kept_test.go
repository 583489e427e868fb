package padlockweb

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/driver/fast"
	"github.com/padlock-go/padlock/observe/history"
	"github.com/padlock-go/padlock/observe/sampler"
	"github.com/padlock-go/padlock/stores/memstore"
)

// A list that is old is dropped when the next one is asked for, and there are never too many.
func TestOldListsAreDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var k keptJobs
		k.put(jobsKey{prefix: "a"}, &jobList{})
		k.put(jobsKey{prefix: "b"}, &jobList{err: context.DeadlineExceeded})
		<-time.After(keepPartial + time.Second)
		if k.get(jobsKey{prefix: "a"}) == nil || k.get(jobsKey{prefix: "b"}) != nil {
			t.Errorf("these lists are kept: %v", k.all)
		}
		<-time.After(keepRead)
		if k.get(jobsKey{}) != nil || len(k.all) > 0 {
			t.Errorf("these old lists are kept: %v", k.all)
		}
		for i := range 3 * maxLists {
			if k.put(jobsKey{since: time.Duration(i)}, &jobList{}); len(k.all) > maxLists {
				t.Fatalf("%d lists are kept", len(k.all))
			}
		}
	})
}

// slowHistory is a history in a store that takes a second for each list. It counts the lists.
type slowHistory struct {
	*memstore.Store
	now, most, calls int
}

func (s *slowHistory) Record(context.Context, string, []fast.Record) error { return nil }

func (s *slowHistory) Records(context.Context, string) ([]fast.Record, error) { return nil, nil }

func (s *slowHistory) Recorded(context.Context, string, int) (map[string][]fast.Record, error) {
	s.calls, s.now = s.calls+1, s.now+1
	s.most = max(s.most, s.now)
	<-time.After(time.Second)
	s.now--
	return nil, nil
}

// Visitors with other filters do not make the page read several histories at the same time, and
// another way to write a duration makes it read nothing more.
func TestOneListOfJobsAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &slowHistory{Store: memstore.New()}
		l := padlock.New(store)
		defer l.Close(t.Context())
		w := Handler(l, Sampler(sampler.New(l)), History(history.Open("", "", store)))
		defer w.Close()
		ask := func(since string) {
			if _, err := w.jobs(t.Context(), w.sampler.Snapshot(), &visitor{}, query{Kind: "jobs", Since: since}); err != nil {
				t.Errorf("since %q: %v", since, err)
			}
		}
		for _, since := range []string{"", "1h", "2h"} {
			go ask(since)
		}
		<-time.After(4 * time.Second)
		ask("60m")
		ask("3600s")
		if store.most != 1 || store.calls != 3 {
			t.Errorf("%d lists, %d at the same time", store.calls, store.most)
		}
	})
}
