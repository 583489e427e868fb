package facetest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/safety"
	"github.com/padlock-go/padlock/stores/memstore"
)

// TestPaths takes a path while another is held, on each kind of store.
func TestPaths(t *testing.T) {
	everyKind(t, func(t *testing.T, s padlock.Store) {
		l := newLocker(t, s)
		for _, c := range []struct {
			held, wanted []string
			refusedAt    string // "" if the path is free
		}{
			{[]string{"src"}, []string{"src"}, "src"},
			{[]string{"src"}, []string{"src/server"}, "src"},
			{[]string{"src"}, []string{"src/server/http"}, "src"},
			{[]string{"src/server"}, []string{"src"}, "src"},
			{[]string{"src/server/http"}, []string{"src"}, "src"},
			{[]string{"src/server"}, []string{"src/client"}, ""},
			{[]string{"src/server"}, []string{"src-server"}, ""},
			{[]string{"src"}, []string{"src2/a"}, ""},
			{[]string{"/src/server"}, []string{"/src"}, "/src"},
			{[]string{"/src"}, []string{"src"}, ""},
			{[]string{"a/b", "c"}, []string{"a/c", "c/d"}, "c"},
			{[]string{"a", "a/b"}, []string{"a/b/c"}, "a"},
			{[]string{"x/a/b"}, []string{"x/a/c", "x/b"}, ""},
		} {
			held, err := l.AcquireAll(t.Context(), c.held, padlock.Paths())
			if err != nil {
				t.Fatal(err)
			}
			got, err := l.AcquireAll(t.Context(), c.wanted, padlock.Paths(), padlock.Wait(0))
			var e *padlock.Error
			switch errors.As(err, &e); {
			case c.refusedAt == "" && err != nil:
				t.Errorf("%v beside %v: %v", c.wanted, c.held, err)
			case c.refusedAt != "" && err == nil:
				safety.TwoHold(t, "%v and %v", c.held, c.wanted)
			case c.refusedAt != "" && (!errors.Is(err, padlock.ErrHeld) || e.Name != c.refusedAt):
				t.Errorf("%v beside %v: %v", c.wanted, c.held, err)
			}
			if err := errors.Join(got.Release(), held.Release()); err != nil && !errors.Is(err, padlock.ErrReleased) {
				t.Error(err)
			}
		}
		if states, err := l.List(t.Context(), ""); err == nil && len(states) > 0 && len(states[0].Holds) > 0 {
			t.Errorf("left behind: %+v", states)
		}
	})
}

// A path meets the plain names of itself and of its folders, and no plain name below it.
func TestPathsBesidePlainNames(t *testing.T) {
	l := newLocker(t, memstore.New())
	all, err := l.AcquireAll(t.Context(), []string{"src/server"}, padlock.Paths())
	if err != nil {
		t.Fatal(err)
	}
	if names := all.Names(); !reflect.DeepEqual(names, []string{"src", "src/server"}) || !all.Lock("src").Shared() || all.Lock("src/server").Shared() {
		t.Errorf("the names are %v", names)
	}
	for name, free := range map[string]bool{"src": false, "src/server": false, "src/server/http": true, "src/client": true} {
		k, err := l.TryAcquire(t.Context(), name)
		if free != (err == nil) || !free && !errors.Is(err, padlock.ErrHeld) {
			t.Errorf("the plain name %s: %v", name, err)
		}
		k.Release()
	}
}

// TestPathsRefuse has each call that Paths refuses, and sends nothing for it.
func TestPathsRefuse(t *testing.T) {
	l := newLocker(t, memstore.New())
	deep := strings.Repeat("a/", 32) + "a"
	for _, name := range []string{".", "/", "", "..", "../a", "a/", "a//b", "./a", "a/../b", "a/.", deep} {
		if _, err := l.AcquireAll(t.Context(), []string{name}, padlock.Paths()); !errors.Is(err, padlock.ErrInvalid) {
			t.Errorf("%q: %v", name, err)
		}
	}
	for _, o := range []padlock.Option{padlock.Shared(), padlock.CoolDown(time.Second), padlock.HoldAtLeast(time.Second), padlock.Slots(2)} {
		if _, err := l.AcquireAll(t.Context(), []string{"a/b"}, padlock.Paths(), o); !errors.Is(err, padlock.ErrInvalid) {
			t.Errorf("%T: %v", o, err)
		}
	}
	if _, err := l.Acquire(t.Context(), "a/b", padlock.Paths()); !errors.Is(err, padlock.ErrInvalid) {
		t.Errorf("Acquire: %v", err)
	}
	all, err := l.AcquireAll(t.Context(), []string{"a/b", deep[2:]}, padlock.Paths())
	if err != nil {
		t.Fatal(err)
	}
	if err := all.Release(padlock.CoolDown(time.Hour)); !errors.Is(err, padlock.ErrInvalid) {
		t.Errorf("a release with a cool-down: %v", err)
	}
	all, err = l.AcquireAll(t.Context(), []string{"a"}, padlock.Paths(), padlock.Wait(0))
	if err != nil {
		t.Fatalf("after the release: %v", err)
	}
	all.Release()
}

// farAhead is a store in which the names differ far in their fences, as if each had been raised to
// another height.
type farAhead struct{ *memstore.Store }

func (s farAhead) Acquire(ctx context.Context, r driver.Request) (driver.Grant, error) {
	if !r.Shared && r.FenceAbove == 0 {
		r.FenceAbove = uint64(strings.Count(r.Name, "/")) << 51
	}
	return s.Store.Acquire(ctx, r)
}

// The fences of overlapping paths rise, whatever fences the names had before.
func TestFencesOfPaths(t *testing.T) {
	store := farAhead{memstore.New()}
	l := newLocker(t, store)
	for _, name := range []string{"a", "a/b", "a/b/c", "a/d"} {
		release(t, acquire(t, l, name))
	}
	var before uint64
	for _, name := range []string{"a/b/c", "a", "a/b", "a/b/c", "a/b", "a", "a/b/c", "a"} {
		all, err := l.AcquireAll(t.Context(), []string{name}, padlock.Paths())
		if err != nil {
			t.Fatal(err)
		}
		fence := all.Lock(name).Fence()
		safety.Rises(t, fence, before, name)
		before = fence
		release(t, all.Lock(name))
		all.Release()
	}
}

// A call may take a folder and a path in it. A later lock on the folder has a greater fence than both.
func TestFenceOfFolderAndPath(t *testing.T) {
	l := newLocker(t, farAhead{memstore.New()})
	release(t, acquire(t, l, "a/b"))
	both, err := l.AcquireAll(t.Context(), []string{"a", "a/b"}, padlock.Paths(), padlock.TTL(100*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	before := max(both.Lock("a").Fence(), both.Lock("a/b").Fence())
	if err := errors.Join(both.Lock("a").Extend(t.Context(), time.Second), both.Release()); err != nil {
		t.Error(err)
	}
	folder, err := l.AcquireAll(t.Context(), []string{"a"}, padlock.Paths())
	if err != nil {
		t.Fatal(err)
	}
	safety.Rises(t, folder.Lock("a").Fence(), before)
	folder.Release()
}

// cannotRaise is a store without driver.FenceRaiser.
type cannotRaise struct{ driver.Store }

func TestPathsWithoutFences(t *testing.T) {
	l := newLocker(t, cannotRaise{memstore.New()})
	all, err := l.AcquireAll(t.Context(), []string{"a/b"}, padlock.Paths())
	if err != nil {
		t.Fatal(err)
	}
	if f := all.Fences(); f["a"] != 0 || f["a/b"] != 0 {
		t.Errorf("the fences are %v, although a later lock on a may have a lower one", f)
	}
	if err := all.Check(t.Context()); err != nil {
		t.Error(err)
	}
	all.Release()
}

// lostRaise is a store that breaks a folder before RaiseFence arrives.
type lostRaise struct {
	*memstore.Store
	lose bool
}

func (s *lostRaise) RaiseFence(ctx context.Context, name, token string, fence uint64) error {
	if s.lose {
		s.lose = false
		if _, err := s.Store.Release(ctx, name, token, 0); err != nil {
			return err
		}
	}
	return s.Store.RaiseFence(ctx, name, token, fence)
}

// If a folder is lost before its fence is raised, nobody gets the path.
func TestFolderLostBeforeRaise(t *testing.T) {
	s := &lostRaise{memstore.New(), true}
	l := newLocker(t, s)
	if _, err := l.AcquireAll(t.Context(), []string{"a/b"}, padlock.Paths()); !errors.Is(err, padlock.ErrLost) {
		t.Fatalf("the error is %v", err)
	}
	all, err := l.AcquireAll(t.Context(), []string{"a"}, padlock.Paths(), padlock.Wait(0))
	if err != nil {
		t.Errorf("something is left: %v", err)
	}
	all.Release()
}

// raiseRemote is a remote that raises fences.
type raiseRemote struct{ *remote }

func (r raiseRemote) RaiseFence(ctx context.Context, name, token string, fence uint64) error {
	return r.on(call{op: "raise", name: name, token: token, ctx: ctx}, func(ctx context.Context) error {
		return r.Store.RaiseFence(ctx, name, token, fence)
	})
}

// If the reply to RaiseFence is lost, the request is repeated. If no reply comes, nobody gets the path. In
// both cases the fences that follow are greater.
func TestRaiseWithoutReply(t *testing.T) {
	for most, repeats := range map[int]int{1: 2, 2: 3, 3: 0} {
		synctest.Test(t, func(t *testing.T) {
			s := raiseRemote{newRemote()}
			l := newLocker(t, s)
			k := acquire(t, l, "a/b", padlock.FenceAbove(1<<52)) // far above that of a
			before := k.Fence()
			release(t, k)
			s.reply("raise", first(most, fails(fmt.Errorf("%w: %w", driver.ErrUncertain, errReset))))
			all, err := l.AcquireAll(t.Context(), []string{"a/b"}, padlock.Paths())
			if repeats == 0 {
				if !errors.Is(err, padlock.ErrUncertain) || !free(t, s.remote, "a") || !free(t, s.remote, "a/b") {
					t.Errorf("without a reply: %v", err)
				}
			} else {
				if err != nil || len(s.log("raise")) != repeats {
					t.Fatalf("%d requests, %v", len(s.log("raise")), err)
				}
				path, folder := all.Lock("a/b"), all.Lock("a")
				safety.Rises(t, path.Fence(), before)
				if err := folder.Extend(t.Context(), time.Second); err != nil || folder.Fence() != path.Fence() || all.Check(t.Context()) != nil {
					t.Errorf("the fences are %v, %v", all.Fences(), err)
				}
				before = path.Fence()
				if err := all.Release(); err != nil {
					t.Error(err)
				}
			}
			later := acquire(t, l, "a")
			safety.Rises(t, later.Fence(), before)
			release(t, later)
		})
	}
}

// forest is what the judge knows of random callers: which paths are asked for and held now.
type forest struct {
	mu     sync.Mutex
	calls  map[int][]string // the paths of each call, from its beginning to the end of its lock
	began  map[int]int      // how many calls had begun when the call began
	ended  map[int]int      // how many calls had begun when the call ended
	holds  map[int][]string
	fences map[string]uint64 // the highest fence of each path
	n      int
}

func overlap(a, b string) bool {
	return a == b || strings.HasPrefix(a, b+"/") || strings.HasPrefix(b, a+"/")
}

func anyOverlap(as, bs []string) bool {
	return slices.ContainsFunc(as, func(a string) bool {
		return slices.ContainsFunc(bs, func(b string) bool { return overlap(a, b) })
	})
}

func (f *forest) begin(paths []string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.n++
	f.calls[f.n], f.began[f.n] = paths, f.n
	return f.n
}

// refused checks that a call or a hold on an overlapping path was under way during the call.
func (f *forest) refused(t *testing.T, id int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for other, paths := range f.calls {
		if end, over := f.ended[other]; other != id && anyOverlap(paths, f.calls[id]) && (!over || end >= f.began[id]) {
			f.ended[id] = f.n
			return
		}
	}
	t.Errorf("%v was refused without need", f.calls[id])
}

func (f *forest) granted(t *testing.T, id int, all *padlock.Locks) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, paths := range f.holds {
		if anyOverlap(paths, f.calls[id]) {
			safety.TwoHold(t, "%v and %v", paths, f.calls[id])
		}
	}
	f.holds[id] = f.calls[id]
	for _, p := range f.calls[id] {
		for other, fence := range f.fences {
			if overlap(p, other) {
				safety.Rises(t, all.Lock(p).Fence(), fence, p, other)
			}
		}
	}
	for _, p := range f.calls[id] {
		f.fences[p] = all.Lock(p).Fence()
	}
}

// over notes the end of a hold, or of the belief in it.
func (f *forest) over(id int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.holds, id)
}

func (f *forest) gone(id int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ended[id] = f.n
}

// randomPaths returns one or two random paths of a small tree.
func randomPaths(r *rand.Rand) []string {
	paths := make([]string, 1+r.IntN(2))
	for i := range paths {
		parts := make([]string, 1+r.IntN(3))
		for k := range parts {
			parts[k] = string(rune('a' + r.IntN(2)))
		}
		paths[i] = strings.Join(parts, "/")
	}
	return paths
}

// TestPathsAtRandom compares random callers with brute force: no two overlapping paths are held at
// the same time, nobody is refused without need, and the fences of overlapping paths rise. Some
// callers die: they neither release nor renew.
func TestPathsAtRandom(t *testing.T) {
	for seed := range uint64(40) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := memstore.New()
				f := &forest{calls: map[int][]string{}, began: map[int]int{}, ended: map[int]int{}, holds: map[int][]string{}, fences: map[string]uint64{}}
				var callers sync.WaitGroup
				for c := range uint64(6) {
					callers.Go(func() { walkPaths(t, f, store, rand.New(rand.NewPCG(seed, c))) })
				}
				callers.Wait()
			})
		})
	}
}

func walkPaths(t *testing.T, f *forest, store padlock.Store, r *rand.Rand) {
	l := padlock.New(store, padlock.KeepStoreOpen(), padlock.TTL(time.Second))
	defer l.Close(context.Background())
	for range 30 {
		paths := randomPaths(r)
		wait := time.Duration(r.IntN(3)) * 500 * time.Millisecond
		id := f.begin(paths)
		all, err := l.AcquireAll(t.Context(), paths, padlock.Paths(), padlock.Wait(wait), padlock.NoRenewal())
		if err != nil {
			if !errors.Is(err, padlock.ErrHeld) && !errors.Is(err, padlock.ErrLost) {
				t.Errorf("%v: %v", paths, err)
			}
			f.refused(t, id)
			continue
		}
		f.granted(t, id, all)
		if r.IntN(4) == 0 {
			<-all.Context().Done() // it dies
			f.over(id)
			<-time.After(time.Second)
			f.gone(id)
			continue
		}
		select {
		case <-all.Context().Done(): // a folder's lease began before the wait for the next name
		case <-time.After(time.Duration(r.IntN(400)) * time.Millisecond):
		}
		f.over(id)
		all.Release()
		f.gone(id)
	}
}
