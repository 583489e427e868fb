package session_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/web/session"
	"github.com/padlock-go/padlock/web/session/sessionstore"
	"github.com/padlock-go/padlock/web/session/sessiontest"
)

// TestModel lets four tabs of a browser use one session. Requests to the store and their replies
// are lost, late and refused meanwhile. The first tab gives the session new ids; at the end, another
// one logs out. A write that was answered with 200 must stay, no tab may get another session, and
// after the logout none of the ids may lead to the session.
//
// A seed fixes what each tab does. The goroutines run in any order.
func TestModel(t *testing.T) {
	first, seeds := uint64(0), uint64(5)
	if server.IsThorough() {
		first, seeds = rand.Uint64()/2, 200 // a failure prints its seed
	}
	for name, k := range map[string]modelKind{
		"locks": {locks: true}, "no locks": {}, "PHP": {locks: true, traits: sessionstore.Traits{CommitsNeedLock: true}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sum := map[string]int{}
			for seed := first; seed < first+seeds && !t.Failed(); seed++ {
				synctest.Test(t, func(t *testing.T) { k.run(t, seed, sum) })
			}
			t.Log(sum)
			for _, what := range []string{"200", "409", "503", "new ids", "logouts"} {
				if sum[what] == 0 {
					t.Errorf("the model made no %s", what)
				}
			}
		})
	}
}

type modelKind struct {
	locks  bool
	traits sessionstore.Traits
}

// run lets the tabs work with a session, and then ends it.
func (k modelKind) run(t *testing.T, seed uint64, sum map[string]int) {
	w := &weather{random: rand.New(rand.NewPCG(seed, 7)), isFair: true}
	store := sessionstore.FromBlobs(stormyBlobs{sessiontest.NewBlobs(), w}, sessionstore.Packed(), k.traits)
	opts := []session.Option{plain, session.MaxWait(2 * time.Second), session.RetryConflicts(int(seed % 3))}
	modes := []session.Mode{session.Delta, session.LastWriteWins}
	if k.locks {
		opts, modes = append(opts, session.Locker(newLocker(t))), append(modes, session.Exclusive)
	}
	m, err := session.New(store, opts...)
	noError(t, err)
	j := &modelJudge{t: t, m: m, sum: sum, weather: w, ids: map[string]*http.Cookie{}, least: map[string]int{}, most: map[string]int{}}
	defer func() {
		if t.Failed() {
			t.Logf("seed %d:\n%s", seed, &w.log)
		}
	}()
	b := newBrowser(t, m)
	b.putValue("start", 1)
	j.keep(b.cookie)
	tabs := func(requests int, other func(random *rand.Rand)) {
		w.set(false)
		var working sync.WaitGroup
		for tab := range 4 {
			random := rand.New(rand.NewPCG(seed, uint64(tab+requests)))
			working.Go(func() {
				for range requests {
					if tab == 1 && other != nil {
						other(random)
						return
					}
					j.request(random, modes[random.IntN(len(modes))], tab == 0)
					nap(random, 200)
				}
			})
		}
		working.Wait()
		w.set(true)
	}
	tabs(25, nil)
	j.checkWrites()
	tabs(6, func(random *rand.Rand) { j.logOut(random, modes[random.IntN(len(modes))]) })
	j.checkLogout()
}

func nap(random *rand.Rand, most int) {
	<-time.After(time.Duration(random.IntN(most)) * time.Millisecond)
}

// modelJudge knows what was promised.
type modelJudge struct {
	t       *testing.T
	m       *session.Manager
	weather *weather

	mu          sync.Mutex
	sum         map[string]int
	requests    int
	cookie      *http.Cookie            // of the browser
	ids         map[string]*http.Cookie // all that it had
	saved       []string                // the keys that must be there
	least, most map[string]int          // of each counter
	isLeaving   bool                    // the logout has begun
	isOut       bool
}

// keep lets the browser have the cookie.
func (j *modelJudge) keep(c *http.Cookie) {
	j.cookie, j.ids[c.Value] = c, c
}

// twin returns a tab of the browser, and a key that no other request writes.
func (j *modelJudge) twin() (*browser, string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.requests++
	return &browser{t: j.t, m: j.m, ctx: context.Background(), cookie: j.cookie}, fmt.Sprintf("key-%d", j.requests)
}

// request writes a key of its own, or counts in one of three ways.
func (j *modelJudge) request(random *rand.Rand, mode session.Mode, mayMove bool) {
	b, key := j.twin()
	sent, moves, runs, sure := b.cookie.Value, mayMove && random.IntN(4) == 0, 0, 0
	counter := []string{"", "", "incr", "put", "update"}[random.IntN(5)]
	if counter == "put" && mode == session.LastWriteWins {
		mode = session.Delta
	}
	status := b.do(func(s *session.Session) {
		runs++
		if moves {
			err := s.Regenerate(bg)
			j.weather.note("%s: Regenerate: %v", key, err)
		}
		var err error
		switch counter {
		case "":
			err = s.Put(key, 1)
		case "incr":
			if _, err = s.Incr(bg, counter, 1); err == nil {
				sure++
			}
		case "put":
			err = addTo(s, counter, random)
		case "update":
			if err = s.Update(bg, func(_ context.Context, tx *session.Session) error { return addTo(tx, counter, random) }); err == nil {
				sure++
			}
		}
		j.weather.note("%s: %s in %v: %v", key, counter, mode, err)
		nap(random, 150)
	}, mode)
	j.weather.note("%s: %d, cookie %.4s", key, status, b.cookie.Value)
	j.mu.Lock()
	defer j.mu.Unlock()
	j.sum[fmt.Sprint(status)]++
	switch {
	case moves:
		j.keep(b.cookie)
		j.sum["new ids"]++
	case b.cookie.Value != sent && !j.isLeaving:
		j.t.Errorf("%s: another session", key)
	}
	switch {
	case counter == "" && status == http.StatusOK:
		j.saved = append(j.saved, key)
	case counter == "put" && status == http.StatusOK:
		sure = 1
		fallthrough
	default:
		j.least[counter] += sure
		j.most[counter] += runs
	}
}

// addTo adds 1 to a number.
func addTo(s *session.Session, key string, random *rand.Rand) error {
	n, err := session.Get[int](s, key)
	if err != nil {
		return err
	}
	nap(random, 50)
	return s.Put(key, n+1)
}

func (j *modelJudge) checkWrites() {
	b, _ := j.twin()
	b.ok(func(s *session.Session) {
		for _, key := range append(j.saved, "start") {
			if get1[int](j.t, s, key) != 1 {
				j.t.Errorf("the write of %s is lost", key)
			}
		}
		for counter, least := range j.least {
			if n := get1[int](j.t, s, counter); counter != "" && (n < least || n > j.most[counter]) {
				j.t.Errorf("%s is %d; %d to %d were saved", counter, n, least, j.most[counter])
			}
		}
	}, session.ReadOnly)
}

// logOut tries once. A request whose id has just become old ends only that id.
func (j *modelJudge) logOut(random *rand.Rand, mode session.Mode) {
	nap(random, 300)
	b, _ := j.twin()
	j.mu.Lock()
	j.isLeaving = true
	j.mu.Unlock()
	var err error
	status := b.do(func(s *session.Session) {
		err = s.Put("k", 1)
		nap(random, 150)
		err = errors.Join(err, s.Destroy(bg))
	}, mode)
	j.weather.note("the logout: %d, %v", status, err)
	j.isOut = status == http.StatusOK && err == nil
}

func (j *modelJudge) checkLogout() {
	if !j.isOut {
		return
	}
	j.sum["logouts"]++
	for id, c := range j.ids {
		b := &browser{t: j.t, m: j.m, ctx: context.Background(), cookie: c}
		b.ok(func(s *session.Session) {
			if get1[int](j.t, s, "start") != 0 {
				j.t.Errorf("the session lives after the logout, with id %.4s", id)
			}
		}, session.ReadOnly)
	}
}

// weather strikes requests to a store.
type weather struct {
	mu     sync.Mutex
	random *rand.Rand
	isFair bool
	late   sync.WaitGroup
	log    bytes.Buffer
}

// set begins fair weather, after which no request is on its way, or ends it.
func (w *weather) set(fair bool) {
	w.mu.Lock()
	w.isFair = fair
	w.mu.Unlock()
	w.late.Wait()
}

func (w *weather) note(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	fmt.Fprintf(&w.log, time.Now().Format("04:05.000 ")+format+"\n", args...)
}

func (w *weather) draw() (strike, wait int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.isFair {
		return 100, w.random.IntN(3)
	}
	return w.random.IntN(100), w.random.IntN(300)
}

var errReset = errors.New("connection reset by peer")

// pass does a request, or loses it, or its reply.
func pass[T any](ctx context.Context, w *weather, what, key string, do func(context.Context) (T, error)) (reply T, err error) {
	strike, wait := w.draw()
	did := func(how string, reply T, err error) {
		w.note("%s %.4s, %s: %.20v, %v", what, key, how, reply, err)
	}
	var none T
	switch {
	case strike < 3:
		return none, fmt.Errorf("%w: no connection", sessionstore.ErrUnavailable)
	case strike < 7:
		reply, err := do(context.WithoutCancel(ctx))
		did("reply lost", reply, err)
		return none, errReset
	case strike < 9:
		return none, errReset
	case strike < 12:
		w.late.Go(func() {
			<-time.After(time.Duration(7*wait) * time.Millisecond)
			reply, err := do(context.WithoutCancel(ctx))
			did("late", reply, err)
		})
		return none, errReset
	case strike < 20:
		<-time.After(time.Duration(wait) * time.Millisecond)
	}
	reply, err = do(ctx)
	did("done", reply, err)
	return reply, err
}

// stormyBlobs are blobs behind bad weather.
type stormyBlobs struct {
	sessionstore.BlobStore
	*weather
}

func (s stormyBlobs) Get(ctx context.Context, key string) (sessionstore.Blob, error) {
	return pass(ctx, s.weather, "Get", key, func(ctx context.Context) (sessionstore.Blob, error) { return s.BlobStore.Get(ctx, key) })
}

func (s stormyBlobs) Swap(ctx context.Context, key string, old *sessionstore.Blob, data []byte, ttl time.Duration) (bool, *sessionstore.Blob, error) {
	type reply struct {
		done    bool
		present *sessionstore.Blob
	}
	old = copyOf(old)
	r, err := pass(ctx, s.weather, "Swap", key, func(ctx context.Context) (r reply, err error) {
		r.done, r.present, err = s.BlobStore.Swap(ctx, key, old, data, ttl)
		return r, err
	})
	return r.done, r.present, err
}

func (s stormyBlobs) Remove(ctx context.Context, key string, old *sessionstore.Blob) (bool, error) {
	old = copyOf(old)
	return pass(ctx, s.weather, "Remove", key, func(ctx context.Context) (bool, error) { return s.BlobStore.Remove(ctx, key, old) })
}

// copyOf makes a copy for a request that may be late.
func copyOf(b *sessionstore.Blob) *sessionstore.Blob {
	if b == nil {
		return nil
	}
	c := *b
	return &c
}
