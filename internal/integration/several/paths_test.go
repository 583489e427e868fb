package several

import (
	"errors"
	"math/rand/v2"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/internal/safety"
	"github.com/padlock-go/padlock/internal/server"
)

// treeHolds are the paths that are held now, and the greatest fence that each path has had.
type treeHolds struct {
	mu     sync.Mutex
	held   map[*padlock.Locks]string
	fences map[string]uint64
}

func overlap(a, b string) bool {
	return a == b || strings.HasPrefix(a, b+"/") || strings.HasPrefix(b, a+"/")
}

func (h *treeHolds) enter(t *testing.T, all *padlock.Locks, path string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for other, held := range h.held {
		if overlap(path, held) && other.Context().Err() == nil && all.Context().Err() == nil {
			safety.TwoHold(t, "%s and %s", path, held)
		}
	}
	h.held[all] = path
	fence := all.Lock(path).Fence()
	for other, before := range h.fences {
		if overlap(path, other) && (fence != 0 || before != 0) {
			safety.Rises(t, fence, before, path, other)
		}
	}
	h.fences[path] = fence
}

func (h *treeHolds) leave(all *padlock.Locks) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.held, all)
}

// Callers of two processes lock random paths of one tree. A path of depth three is timed, too.
func (s site) paths(t *testing.T) {
	lockers := []*padlock.Locker{s.locker(t), s.locker(t)}
	root := name("tree")
	if !lockers[0].Guarantees().Shared {
		if _, err := lockers[0].AcquireAll(t.Context(), []string{root + "/a"}, padlock.Paths()); !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("a store without shared locks: %v", err)
		}
		return
	}
	h := &treeHolds{held: map[*padlock.Locks]string{}, fences: map[string]uint64{}}
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(2311, uint64(i)))
			for range 6 {
				path := root
				for range r.IntN(3) {
					path += "/" + string(rune('a'+r.IntN(2)))
				}
				all, err := lockers[i%2].AcquireAll(t.Context(), []string{path}, padlock.Paths())
				if err != nil {
					t.Errorf("%s: %v", path, err)
					return
				}
				h.enter(t, all, path)
				<-time.After(2 * time.Millisecond)
				h.leave(all)
				if err := all.Release(); err != nil {
					t.Errorf("%s: %v", path, err)
				}
			}
		})
	}
	wg.Wait()
	s.timePath(t, root)
}

// counted returns the same store behind a proxy that counts requests, or the store itself if it has no
// server. As long as one request follows the other, each is one read of the proxy.
func (s site) counted(t *testing.T) (site, *atomic.Int64) {
	n := new(atomic.Int64)
	u, err := url.Parse(s.url)
	if err != nil || u.Host == "" {
		return s, n
	}
	p := server.NewProxy(t, u.Host)
	p.LoseReply(func([]byte) bool { n.Add(1); return false })
	u.Host = p.Addr()
	return site{u.String()}, n
}

// timePath prints what a free path of depth three takes: times and requests.
func (s site) timePath(t *testing.T, root string) {
	const rounds = 20
	var taken, released time.Duration
	behind, requests := s.counted(t)
	l := behind.locker(t)
	for range 2 { // connections, prepared statements
		all, err := l.AcquireAll(t.Context(), []string{root + "/a/b"}, padlock.Paths())
		if err != nil {
			t.Fatal(err)
		}
		all.Release()
	}
	before := requests.Load()
	for range rounds {
		began := time.Now()
		all, err := l.AcquireAll(t.Context(), []string{root + "/a/b"}, padlock.Paths())
		taken += time.Since(began)
		if err != nil {
			t.Fatal(err)
		}
		began = time.Now()
		if err := all.Release(); err != nil {
			t.Fatal(err)
		}
		released += time.Since(began)
	}
	scheme, _, _ := strings.Cut(s.url, ":")
	t.Logf("a free path of depth three on %s: %.1f requests, %v to take, %v to release", scheme, float64(requests.Load()-before)/rounds, (taken / rounds).Round(time.Microsecond), (released / rounds).Round(time.Microsecond))
}
