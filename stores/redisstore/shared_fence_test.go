package redisstore_test

import (
	"testing"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/safety"
	"github.com/padlock-go/padlock/internal/server"
)

// A server that comes back without its last second of writes (appendfsync everysec, a failover)
// knows an older fence than the last one that it gave. The first reader after that must not get the
// older fence, because a writer that the server has forgotten may have come in between.
func TestSharedFenceAfterALostTail(t *testing.T) {
	t.Parallel()
	srv := server.Redis(t, server.RedisOptions{})
	s, c := opened(t, srv.Addr()), rawClient(t, single(srv.Addr()))
	hold := func(r driver.Request) uint64 {
		t.Helper()
		g := take(t, s, r)
		free(t, s, r)
		return g.Fence
	}
	hold(request("job"))
	note := companion(t, c, "f", "job")
	before := askBy(t, c, "GET", note)
	writer := hold(request("job"))
	askBy(t, c, "SET", note, before)
	if reader := hold(reading(request("job"))); reader <= writer {
		t.Errorf("a reader's fence %d is not above %d of the writer before it", reader, writer)
	}
}

// Readers that hold a name together share a fence, so that a resource that checks fences refuses
// none of them. The next writer has a greater fence.
func TestReadersTogetherShareAFence(t *testing.T) {
	t.Parallel()
	srv := server.Redis(t, server.RedisOptions{})
	s := opened(t, srv.Addr())
	w := request("job")
	before := take(t, s, w).Fence
	free(t, s, w)
	var fences []uint64
	var readers []driver.Request
	for range 3 {
		r := reading(request("job"))
		fences, readers = append(fences, take(t, s, r).Fence), append(readers, r)
	}
	if !safety.Rises(t, fences[0], before) || fences[1] != fences[0] || fences[2] != fences[0] {
		t.Errorf("the fences of readers are %v, after a writer's %d", fences, before)
	}
	// A reader that adopts a hold gets a greater fence than the hold had.
	swap := reading(request("job"))
	swap.Replaces = readers[2].Token
	safety.Rises(t, take(t, s, swap).Fence, fences[2])
	for _, r := range append(readers[:2], swap) {
		free(t, s, r)
	}
	w = request("job")
	safety.Rises(t, take(t, s, w).Fence, fences[0])
}

// A reader that adopts the only hold of a name gets the last fence below MaxFence, and no greater
// one.
func TestAdoptedReaderGetsTheLastFence(t *testing.T) {
	t.Parallel()
	srv := server.Redis(t, server.RedisOptions{})
	s := opened(t, srv.Addr())
	r, swap := reading(request("job")), reading(request("job"))
	take(t, s, r)
	if err := s.RaiseFence(t.Context(), "job", r.Token.Text(), driver.MaxFence-2); err != nil {
		t.Fatal(err)
	}
	swap.Replaces = r.Token
	if g := take(t, s, swap); g.Fence != driver.MaxFence-1 {
		t.Errorf("the fence is %d, want %d", g.Fence, uint64(driver.MaxFence-1))
	}
}
