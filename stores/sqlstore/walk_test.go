package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/storekit/decide"
	"github.com/padlock-go/padlock/stores/memstore"
)

// handClock is a clock that a test moves.
type handClock struct{ now driver.Instant }

func (c *handClock) Now() driver.Instant { return c.now }

func (c *handClock) AfterFunc(time.Duration, func()) func() bool { return func() bool { return true } }

func (c *handClock) Nap() time.Duration { return 0 }

// A walk makes the same steps on a state and on a store in memory. Both decide with package decide,
// which a model checks. So the walk checks what this package adds: the grants of the statements,
// and the conditions on which the columns of the table rely.
type walk struct {
	t      *testing.T
	st     *state
	now    decide.Time
	clock  *handClock
	ref    *memstore.Store
	tokens []string // of grants and tries
	top    [2]uint64
	log    []string
}

func newWalk(t *testing.T) *walk {
	clock := &handClock{now: 1}
	return &walk{t: t, st: &state{}, now: 1_800_000_000_000_000, clock: clock, ref: memstore.New(memstore.WithClock(clock))}
}

// runSteps makes the steps that the bytes in data stand for.
func (w *walk) runSteps(data []byte) {
	for ; len(data) >= 2; data = data[2:] {
		w.step(data[0], data[1])
		w.compare()
		if w.t.Failed() {
			w.t.Fatalf("after %s", strings.Join(w.log, ", "))
		}
	}
}

func (w *walk) step(what, with byte) {
	w.st.trim(w.now)
	token := ""
	if n := len(w.tokens); n > 0 {
		token = w.tokens[n-1-int(with)%min(n, 6)]
	}
	switch what % 10 {
	case 0, 1:
		w.acquire(driver.Request{Token: driver.TokenOf(w.token()), Shared: with%2 == 0, FenceAbove: w.fenceAbove(with)})
	case 2:
		w.acquire(driver.Request{Token: driver.TokenOf(w.token()), Replaces: driver.TokenOf(token)})
	case 3:
		w.take()
	case 4, 5:
		w.release(token, time.Duration(with%3)*2*time.Second)
	case 6:
		w.extend(token, time.Duration(with%3)*4*time.Second)
	case 7:
		w.convert(token, with%2 == 0)
	case 8:
		w.breakAll(with%4 == 0)
	case 9:
		d := time.Duration(1+with%8) * 700 * time.Millisecond
		w.note("%v pass", d)
		w.now, w.clock.now = w.now.Add(d), w.clock.now.Add(d)
	}
}

func (w *walk) note(format string, args ...any) { w.log = append(w.log, fmt.Sprintf(format, args...)) }

func (w *walk) token() string {
	w.tokens = append(w.tokens, "t"+strconv.Itoa(len(w.tokens)))
	return w.tokens[len(w.tokens)-1]
}

// fenceAbove returns a FenceAbove for a few values of the byte, and 0 for all others.
func (w *walk) fenceAbove(with byte) uint64 {
	if with < 250 {
		return 0
	}
	return uint64(w.now) + 1<<40
}

const walkTTL = 3 * time.Second

func (w *walk) acquire(r driver.Request) {
	r.Name, r.TTL = "name", walkTTL
	w.note("acquire %s (shared %v, replaces %q)", r.Token.Text(), r.Shared, r.Replaces.Text())
	g, err := w.ref.Acquire(context.Background(), r)
	h, mine := w.st.acquire(&r, w.now)
	w.sameError(mine, err)
	if err == nil && mine == nil {
		w.granted(h.Fence, g.Fence)
	}
}

// If the name is certainly free, the walk takes it as the statement for a free name does.
func (w *walk) take() {
	if h, _ := w.st.exclusive(); h != nil || w.st.busyUntil() > w.now {
		return
	}
	token := w.token()
	w.note("take %s", token)
	g, err := w.ref.Acquire(context.Background(), driver.Request{Name: "name", Token: driver.TokenOf(token), TTL: walkTTL})
	w.sameError(nil, err)
	w.st.Fence = max(w.st.Fence+1, uint64(w.now))
	w.st.Holds = append(w.st.Holds, decide.Hold{Token: token, Fence: w.st.Fence, Since: w.now, Until: w.now.Add(walkTTL)})
	w.granted(w.st.Fence, g.Fence)
}

// granted checks that both fences are new, or that neither is.
func (w *walk) granted(mine, ref uint64) {
	a, b := mine > w.top[0], ref > w.top[1]
	if a != b {
		w.t.Errorf("a new fence: %v, the reference: %v", a, b)
	}
	if a {
		w.top = [2]uint64{mine, ref}
	}
}

func (w *walk) release(token string, keep time.Duration) {
	if token == "" {
		return
	}
	w.note("release %s, keep %v", token, keep)
	want, err := w.ref.Release(context.Background(), "name", token, keep)
	got := w.st.release(token, keep, w.now)
	if got == driver.OutcomeTaken && want == driver.OutcomeGone {
		return // the reference has forgotten the name
	}
	if got != want || err != nil {
		w.t.Errorf("release: outcome %d, the reference: %d, %v", got, want, err)
	}
}

func (w *walk) extend(token string, ttl time.Duration) {
	if token == "" {
		return
	}
	w.note("extend %s by %v", token, ttl)
	_, err := w.ref.Extend(context.Background(), "name", token, ttl)
	_, mine := w.st.Extend(token, ttl, at(w.now))
	w.sameError(mine, err)
}

func (w *walk) convert(token string, shared bool) {
	if token == "" {
		return
	}
	w.note("convert %s to shared %v", token, shared)
	r := driver.Request{Name: "name", Token: driver.TokenOf(token), TTL: walkTTL, Shared: shared}
	g, err := w.ref.Convert(context.Background(), r)
	h, _, mine := w.st.convert(&r, w.now)
	w.sameError(mine, err)
	if mine == nil && err == nil {
		w.granted(h.Fence, g.Fence)
	}
}

func (w *walk) breakAll(really bool) {
	s, err := w.ref.Inspect(context.Background(), "name")
	if !really || err != nil || s.Fence == 0 || len(s.Holds) == 0 {
		return
	}
	w.note("break")
	ref, err := w.ref.Break(context.Background(), "name", s.Fence)
	mine, bad := w.st.Break(w.st.Fence, at(w.now))
	w.sameError(bad, err)
	w.granted(mine, ref)
}

// sameError checks that both errors are of one kind.
func (w *walk) sameError(mine, ref error) {
	for _, kind := range []error{nil, driver.ErrHeld, driver.ErrLost, driver.ErrExpired, driver.ErrPromotionConflict} {
		if kind == nil && (mine == nil) != (ref == nil) || kind != nil && errors.Is(mine, kind) != errors.Is(ref, kind) {
			w.t.Errorf("%v, the reference: %v", mine, ref)
			return
		}
	}
}

// compare checks that both have the same holds. It also checks the conditions on which the columns
// of the table rely.
func (w *walk) compare() {
	for {
		start := time.Now()
		want, err := w.ref.Inspect(context.Background(), "name")
		if err != nil {
			w.t.Fatal(err)
		}
		a, b := brief(w.st.report("name", w.now).Holds), brief(want.Holds)
		if a != b && time.Since(start) > 20*time.Millisecond {
			continue // the process was stopped between the two looks at the clock
		}
		if a != b {
			w.t.Errorf("holds: %s, the reference: %s", a, b)
		}
		break
	}
	exclusive, others := w.st.exclusive()
	if exclusive != nil && exclusive.Fence != w.st.Fence {
		w.t.Errorf("the exclusive hold has fence %d and the name %d: the table has one column for both", exclusive.Fence, w.st.Fence)
	}
	if slices.ContainsFunc(others, func(h decide.Hold) bool { return !h.Shared }) {
		w.t.Error("there are two exclusive holds, and the table has columns for one")
	}
}

func brief(holds []driver.Hold) string {
	var out []string
	for _, h := range holds {
		out = append(out, fmt.Sprint(h.Shared, h.Cooling, time.Until(h.Until).Round(100*time.Millisecond)))
	}
	slices.Sort(out)
	return strings.Join(out, "; ")
}

func FuzzState(f *testing.F) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		data := make([]byte, 120)
		for i := range data {
			data[i] = byte(r.Uint32())
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) { newWalk(t).runSteps(data) })
}
