package redissession_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/web/session"
	"github.com/padlock-go/padlock/web/session/phpcodec"
	"github.com/padlock-go/padlock/web/session/phpsession"
	"github.com/padlock-go/padlock/web/session/redissession"
	"github.com/padlock-go/padlock/web/session/sessionstore"
	"github.com/padlock-go/padlock/web/session/sessiontest"
	"github.com/padlock-go/padlock/web/session/sessiontest/load"
	"github.com/redis/rueidis"
)

// stores are the ways of keeping sessions.
var stores = map[string]func(*redissession.Redis) sessionstore.IndexedStore{
	"hash": (*redissession.Redis).Sessions,
	"blob": (*redissession.Redis).BlobSessions,
}

// phpHarness is for sessions in PHP's format.
func phpHarness(r *redissession.Redis) sessiontest.Harness {
	format := phpsession.Format(phpcodec.PHP)
	traits := sessionstore.Traits{NoDeadline: true, CommitsNeedLock: true}
	return sessiontest.Harness{
		Open:   func() (sessionstore.Store, error) { return sessionstore.FromBlobs(r.Blobs(), format, traits), nil },
		Encode: func(v any) []byte { b, _ := phpsession.Codec().Marshal(v); return b },
		Keys:   []string{"k", "é", "with space", "a:b", "{x}", "'", `"\`, "05", "%s"},
	}
}

func TestContract(t *testing.T) {
	for _, cluster := range []bool{false, true} {
		srv := server.Redis(t, server.RedisOptions{Cluster: cluster})
		r := newRedis(t, dial(t, clientOption(srv.Addr())))
		run := func(name string, h sessiontest.Harness) {
			t.Run(fmt.Sprintf("%s/cluster=%v", name, cluster), func(t *testing.T) {
				t.Parallel()
				sessiontest.Run(t, h)
			})
		}
		for name, open := range stores {
			run(name, sessiontest.Harness{Open: func() (sessionstore.Store, error) { return open(r), nil }})
		}
		run("php", phpHarness(r))
		t.Run(fmt.Sprintf("values/cluster=%v", cluster), func(t *testing.T) {
			t.Parallel()
			sessiontest.RunBlobs(t, sessiontest.BlobHarness{Open: func() (sessionstore.BlobStore, error) { return r.Blobs(), nil }})
		})
	}
}

// started returns a client that has a session. It starts a Redis for that session alone, and all
// writers use mode.
func started(t *testing.T, open func(*redissession.Redis) sessionstore.IndexedStore, mode session.Mode) *load.Client {
	t.Helper()
	o := clientOption(startRedis(t).Addr())
	m := newManager(t, open(newRedis(t, dial(t, o))), newLocker(t, o, redissession.Locks()...))
	c := serve(t, load.Handler(m, mode))
	noError(t, c.Start(t.Context()))
	return c
}

// onlyStatus checks that all answers have the given status.
// TestCrowdKeepsAll has 100 requests of one visitor set a key each.
func TestCrowdKeepsAll(t *testing.T) {
	t.Parallel()
	modes := map[string]session.Mode{"Delta": session.Delta, "Exclusive": session.Exclusive}
	for name, mode := range modes {
		for store, open := range stores {
			t.Run(name+"/"+store, func(t *testing.T) {
				t.Parallel()
				c := started(t, open, mode)
				plans := []load.Plan{load.Set(load.CrowdSize, 0, 0), load.Set(load.CrowdSize, 25*time.Millisecond, 0), load.Set(load.CrowdSize, 5*time.Millisecond, time.Second)}
				for range 4 { // five rounds of the quick plans
					plans = append(plans, plans[0])
					if name == "Delta" {
						plans = append(plans, plans[1])
					}
				}
				if !server.IsThorough() {
					plans = plans[:1]
				}
				for _, p := range plans {
					noError(t, c.Start(t.Context()))
					load.CheckKept(t, c, p)
				}
			})
		}
	}
}

func TestCrowdCounts(t *testing.T) {
	t.Parallel()
	for store, open := range stores {
		for _, c := range []struct {
			name string
			mode session.Mode
			plan load.Plan
		}{
			{"Exclusive adds all", session.Exclusive, load.Add(load.CrowdSize, time.Millisecond)},
			{"Delta adds or refuses", session.Delta, load.Add(load.CrowdSize, 5*time.Millisecond)},
			{"Incr", session.Delta, load.Incr(load.CrowdSize)},
		} {
			t.Run(c.name+"/"+store, func(t *testing.T) {
				t.Parallel()
				client := started(t, open, c.mode)
				load.CheckCount(t, client, c.plan, c.name[0] == 'D')
			})
		}
	}
}

// TestLogoutHolds logs out while others are at work, 20 times: none of them
// brings the session back.
func TestLogoutHolds(t *testing.T) {
	t.Parallel()
	for store, open := range stores {
		t.Run(store, func(t *testing.T) {
			t.Parallel()
			o := clientOption(startRedis(t).Addr())
			m := newManager(t, open(newRedis(t, dial(t, o))), newLocker(t, o, redissession.Locks()...))
			for range 20 {
				inside, goOn := make(chan bool), make(chan bool)
				mux := http.NewServeMux()
				mux.Handle("/", load.Handler(m))
				mux.Handle("/slow", m.Middleware(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
					s := session.From(r.Context())
					_, err := session.Get[int](s, "started")
					inside <- true
					<-goOn
					if err = errors.Join(err, s.Put("late", 1)); err != nil {
						t.Error(err)
					}
				})))
				c := serve(t, mux)
				noError(t, c.Start(t.Context()))
				load.CheckLogout(t, c, "/slow", inside, goOn)
			}
		})
	}
}

// TestKeysInRedis looks at what is kept, and under which names.
func TestKeysInRedis(t *testing.T) {
	t.Parallel()
	c := dial(t, clientOption(startRedis(t).Addr()))
	r := newRedis(t, c, redissession.Prefix("app:"))
	for _, open := range stores {
		_, err := open(r).Commit(t.Context(), "id", sessionstore.Change{Create: true, TTL: time.Hour, Deadline: time.UnixMilli(1234),
			Ops: []sessionstore.Op{{Kind: sessionstore.OpPut, Key: "v", Value: []byte("1")}}})
		noError(t, err)
	}
	noError(t, r.Values().Discard(t.Context(), "k"))
	if got := askServer(t, c, "DBSIZE"); got != "3" {
		t.Errorf("%s keys", got)
	}
	if got := askServer(t, c, "HGET", "app:session:id", ":v") + askServer(t, c, "HGET", "app:session:id", "d"); got != "11234" {
		t.Errorf("the hash has %q", got)
	}
	if got := askServer(t, c, "GET", "app:blob:id"); !strings.HasSuffix(got, "\x01v\x011") {
		t.Errorf("the string is %q", got)
	}
	for _, bad := range []string{"a{b", "a{}b"} {
		if _, err := redissession.Open(t.Context(), place(c.option), redissession.Prefix(bad)); !errors.Is(err, padlock.ErrInvalid) {
			t.Errorf("the prefix %q: %v", bad, err)
		}
	}
}

// TestTouchWritesNoData counts what renewing a lifetime costs.
func TestTouchWritesNoData(t *testing.T) {
	t.Parallel()
	c := dial(t, clientOption(startRedis(t).Addr()))
	for store, open := range stores {
		s := open(newRedis(t, c))
		_, err := s.Commit(t.Context(), store, sessionstore.Change{Create: true, TTL: time.Minute})
		noError(t, err)
		askServer(t, c, "CONFIG", "RESETSTAT")
		noError(t, s.Touch(t.Context(), store, time.Hour))
		stats := askServer(t, c, "INFO", "commandstats")
		if strings.Contains(stats, "cmdstat_set:") || strings.Contains(stats, "cmdstat_hset:") || !strings.Contains(stats, "cmdstat_pexpire:calls=1,") {
			t.Errorf("%s: %s", store, stats)
		}
	}
}

// TestCommitIsOneCall counts the commands that a commit to a hash sends.
func TestCommitIsOneCall(t *testing.T) {
	t.Parallel()
	c := dial(t, clientOption(startRedis(t).Addr()))
	s := newRedis(t, c).Sessions()
	commit := func(create bool) {
		_, err := s.Commit(t.Context(), "id", sessionstore.Change{Create: create, Ops: []sessionstore.Op{
			{Kind: sessionstore.OpPut, Key: "a", Value: []byte("1")}, {Kind: sessionstore.OpIncr, Key: "n", Delta: 1}, {Kind: sessionstore.OpTake, Key: "a"},
		}})
		noError(t, err)
	}
	commit(true)
	askServer(t, c, "CONFIG", "RESETSTAT")
	commit(false)
	if stats := askServer(t, c, "INFO", "commandstats"); !strings.Contains(stats, "cmdstat_evalsha:calls=1,") {
		t.Error(stats)
	}
}

func TestForgottenScripts(t *testing.T) {
	t.Parallel()
	c := dial(t, clientOption(startRedis(t).Addr()))
	for store, open := range stores {
		s := open(newRedis(t, c))
		for i := range 2 {
			askServer(t, c, "SCRIPT", "FLUSH")
			_, err := s.Commit(t.Context(), store, sessionstore.Change{Create: i == 0})
			noError(t, err)
		}
	}
}

// TestFailures checks the errors for a session when the server refuses or is gone.
func TestFailures(t *testing.T) {
	t.Parallel()
	for store, open := range stores {
		t.Run(store, func(t *testing.T) {
			t.Parallel()
			srv := startRedis(t)
			c := dial(t, clientOption(srv.Addr()))
			s := open(newRedis(t, c))
			ctx := t.Context()
			checkWrongData(t, s, c, store)
			_, err := s.Commit(ctx, "id", sessionstore.Change{Create: true})
			noError(t, err)
			askServer(t, c, "CONFIG", "SET", "maxmemory", "1")
			if _, err := s.Commit(ctx, "id", sessionstore.Change{Ops: []sessionstore.Op{{Kind: sessionstore.OpIncr, Key: "n", Delta: 1}}}); !errors.Is(err, session.ErrUnavailable) {
				t.Errorf("Commit without memory: %v", err)
			}
			askServer(t, c, "CONFIG", "SET", "maxmemory", "0")
			if rec, err := s.Load(ctx, "id"); err != nil || len(rec.Fields) > 0 {
				t.Errorf("a refused commit left %v, %v", rec.Fields, err)
			}
			srv.Kill()
			if _, err := s.Load(ctx, "id"); !errors.Is(err, session.ErrUnavailable) {
				t.Errorf("Load without a server: %v", err)
			}
			if _, err := s.Commit(ctx, "id", sessionstore.Change{}); err == nil || errors.Is(err, sessionstore.ErrNotFound) {
				t.Errorf("Commit without a server: %v", err)
			}
		})
	}
}

// checkWrongData puts other data at a session's key. They must be refused and left alone.
func checkWrongData(t *testing.T, s sessionstore.Store, c rueidis.Client, store string) {
	t.Helper()
	key := map[string]string{"hash": "padlock:session:odd", "blob": "padlock:blob:odd"}[store]
	askServer(t, c, "SADD", key, "x")
	if _, err := s.Load(t.Context(), "odd"); !errors.Is(err, session.ErrRefused) {
		t.Errorf("Load of a set: %v", err)
	}
	if _, err := s.Commit(t.Context(), "odd", sessionstore.Change{}); !errors.Is(err, session.ErrRefused) {
		t.Errorf("Commit to a set: %v", err)
	}
	if _, err := s.Commit(t.Context(), "odd", sessionstore.Change{Create: true}); err == nil {
		t.Error("a set was made a session")
	}
	askServer(t, c, "DEL", key)
	askServer(t, c, "HSET", key, "x", "y")
	if _, err := s.Load(t.Context(), "odd"); !errors.Is(err, session.ErrRefused) {
		t.Errorf("Load of somebody's hash: %v", err)
	}
	if _, err := s.Commit(t.Context(), "odd", sessionstore.Change{Create: true}); err == nil {
		t.Error("somebody's hash was made a session")
	}
	if askServer(t, c, "HLEN", key) != "1" {
		t.Error("it was changed")
	}
}

func op(kind sessionstore.OpKind, key, value string) sessionstore.Op {
	return sessionstore.Op{Kind: kind, Key: key, Value: []byte(value), Delta: 1}
}

// TestUndone has a commit fail in its last operation. The earlier operations must be undone.
func TestUndone(t *testing.T) {
	t.Parallel()
	c := dial(t, clientOption(startRedis(t).Addr()))
	for store, open := range stores {
		s := open(newRedis(t, c))
		ops := []sessionstore.Op{
			op(sessionstore.OpPut, "old", "1"), op(sessionstore.OpPut, "old", "2"), op(sessionstore.OpPut, "new", "1"),
			op(sessionstore.OpTake, "gone", ""), op(sessionstore.OpPut, "text", "x"), op(sessionstore.OpIncr, "text", ""),
		}
		if _, err := s.Commit(t.Context(), store, sessionstore.Change{Create: true, Ops: ops}); !errors.Is(err, session.ErrNotNumber) {
			t.Errorf("%s: %v", store, err)
		}
		if _, err := s.Load(t.Context(), store); !errors.Is(err, sessionstore.ErrNotFound) {
			t.Errorf("%s: a session that was refused is there: %v", store, err)
		}
		_, err := s.Commit(t.Context(), store, sessionstore.Change{Create: true, TTL: time.Hour, Ops: []sessionstore.Op{op(sessionstore.OpPut, "gone", "3"), op(sessionstore.OpPut, "old", "4")}})
		noError(t, err)
		before, err := s.Load(t.Context(), store)
		noError(t, err)
		if _, err := s.Commit(t.Context(), store, sessionstore.Change{Ops: ops}); !errors.Is(err, session.ErrNotNumber) {
			t.Errorf("%s: %v", store, err)
		}
		after, err := s.Load(t.Context(), store)
		noError(t, err)
		before.TTL, after.TTL, before.Try, after.Try = 0, 0, nil, nil
		if !reflect.DeepEqual(before, after) {
			t.Errorf("%s: before %v, after %v", store, before, after)
		}
	}
}

// TestForEver commits without a lifetime to a session that had one, so the session lives for ever.
// It also checks that the result has no value for a key that the commit deletes.
func TestForEver(t *testing.T) {
	t.Parallel()
	c := dial(t, clientOption(startRedis(t).Addr()))
	for store, open := range stores {
		s := open(newRedis(t, c))
		_, err := s.Commit(t.Context(), store, sessionstore.Change{Create: true, TTL: time.Hour, Ops: []sessionstore.Op{op(sessionstore.OpPut, "k", "1")}})
		noError(t, err)
		res, err := s.Commit(t.Context(), store, sessionstore.Change{Ops: []sessionstore.Op{op(sessionstore.OpDelete, "k", "")}})
		if err != nil || len(res.Values) != 1 || res.Values[0] != nil {
			t.Errorf("%s: %q %v", store, res.Values, err)
		}
		if rec, err := s.Load(t.Context(), store); err != nil || rec.TTL != 0 {
			t.Errorf("%s: it lives for %v, %v", store, rec.TTL, err)
		}
	}
}

// TestShortLife: the smallest lifetime, 1 ns, must not be rounded to 0, which means for ever.
func TestShortLife(t *testing.T) {
	t.Parallel()
	c := dial(t, clientOption(startRedis(t).Addr()))
	for store, open := range stores {
		s := open(newRedis(t, c))
		_, err := s.Commit(t.Context(), store, sessionstore.Change{Create: true, TTL: 1})
		noError(t, err)
		_, err = s.Commit(t.Context(), store+"2", sessionstore.Change{Create: true, TTL: time.Hour})
		noError(t, err)
		noError(t, s.Touch(t.Context(), store+"2", 1))
		for _, key := range []string{store, store + "2"} {
			if rec, err := s.Load(t.Context(), key); err == nil && rec.TTL == 0 {
				t.Errorf("%s lives for ever", key)
			}
		}
	}
}

// lateTimer is a context whose deadline has passed and whose timer has not run yet.
type lateTimer struct{ context.Context }

func (lateTimer) Deadline() (time.Time, bool) { return time.Now().Add(-time.Millisecond), true }

func TestDeadlineBeforeItsTimer(t *testing.T) {
	t.Parallel()
	s := newRedis(t, dial(t, clientOption(startRedis(t).Addr()))).Sessions()
	_, err := s.Commit(lateTimer{t.Context()}, "id", sessionstore.Change{Create: true})
	if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, session.ErrUnavailable) {
		t.Errorf("Commit after the deadline: %v", err)
	}
}

// TestLostReply has a commit end without a reply. Nobody knows whether it was carried out, so its
// error must not claim either.
func TestLostReply(t *testing.T) {
	t.Parallel()
	srv := startRedis(t)
	s := newRedis(t, dial(t, clientOption(srv.Addr()))).Sessions()
	_, err := s.Commit(t.Context(), "id", sessionstore.Change{Create: true})
	noError(t, err)
	srv.Pause()
	var ctx context.Context
	for _, limit := range []time.Duration{50 * time.Millisecond, 500 * time.Millisecond, 4 * time.Second} {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(t.Context(), limit)
		defer cancel()
		_, err = s.Commit(ctx, "id", sessionstore.Change{Ops: []sessionstore.Op{{Kind: sessionstore.OpIncr, Key: "n", Delta: 1}}})
		if !errors.Is(err, session.ErrUnavailable) { // else ctx was over before the request was sent
			break
		}
	}
	if err == nil || errors.Is(err, session.ErrUnavailable) || errors.Is(err, sessionstore.ErrNotFound) || errors.Is(err, session.ErrConflict) {
		t.Errorf("Commit without a reply: %v", err)
	}
	if _, err := s.Load(ctx, "id"); !errors.Is(err, session.ErrUnavailable) {
		t.Errorf("Load with a context that is over: %v", err)
	}
	if _, err := s.Commit(ctx, "id", sessionstore.Change{}); !errors.Is(err, session.ErrUnavailable) {
		t.Errorf("Commit with a context that is over: %v", err)
	}
	srv.Resume()
	rec, err := s.Load(t.Context(), "id")
	if err != nil || len(rec.Fields) > 1 {
		t.Errorf("after all: %v %v", rec, err)
	}
}
