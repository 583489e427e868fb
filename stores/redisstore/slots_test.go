package redisstore_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/driver/fast"
	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/stores/redisstore"
)

// The permits of a name are listed with every prefix of the name, once each.
func TestSlotsAreListed(t *testing.T) {
	t.Parallel()
	srv := server.Redis(t, server.RedisOptions{})
	for _, prefix := range []string{"", "app:"} {
		l := padlock.New(opened(t, srv.Addr(), redisstore.Prefix(prefix)), padlock.KeepStoreOpen())
		var locks []*padlock.Lock
		for range 2 {
			k, err := l.Acquire(t.Context(), "job", padlock.Slots(2))
			if err != nil {
				t.Fatal(err)
			}
			locks = append(locks, k)
		}
		waiting, cancel := context.WithTimeout(t.Context(), time.Minute)
		over := make(chan error)
		go func() {
			_, err := l.Acquire(waiting, "job", padlock.Slots(2))
			over <- err
		}()
		for s, err := l.Inspect(t.Context(), fast.SlotGate("job", 2)); len(s.Holds) == 0; s, err = l.Inspect(t.Context(), fast.SlotGate("job", 2)) {
			if err != nil {
				t.Fatal(err)
			}
		}
		for _, under := range []string{"", "j", "job", strings.TrimSuffix(fast.SlotName("job", 0), ":0")} {
			states, err := l.List(t.Context(), under)
			found := map[int]int{}
			for _, s := range states {
				if name, slot, ok := fast.SplitSlot(s.Name); ok && name == "job" {
					found[slot]++
				}
			}
			if err != nil || found[0] != 1 || found[1] != 1 || found[-1] != 1 {
				t.Errorf("prefix %q: List(%q) finds %v, %v", prefix, under, found, err)
			}
		}
		cancel()
		<-over
		for _, k := range locks {
			if err := k.Release(); err != nil {
				t.Error(err)
			}
		}
	}
}
