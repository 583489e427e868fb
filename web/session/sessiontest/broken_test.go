package sessiontest_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/web/session"
	"github.com/padlock-go/padlock/web/session/sessionstore"
	"github.com/padlock-go/padlock/web/session/sessiontest"
)

// A breakage describes a store that breaks one rule, and names the case that must notice.
type breakage struct {
	name   string
	case_  string
	commit func(s sessionstore.Store, ctx context.Context, key string, c sessionstore.Change) (sessionstore.Result, error)
	load   func(r sessionstore.Record) sessionstore.Record
	touch  func(s sessionstore.Store, ctx context.Context, key string, ttl time.Duration) error
	note   func(s sessionstore.Index, ctx context.Context, user, key string, ttl time.Duration) error
	noted  func(keys []string) []string
	del    func(s sessionstore.Store, ctx context.Context, key string) (sessionstore.Moved, error)
}

type brokenStore struct {
	sessionstore.IndexedStore
	b *breakage
}

func (s brokenStore) Commit(ctx context.Context, key string, c sessionstore.Change) (sessionstore.Result, error) {
	if s.b.commit == nil {
		return s.IndexedStore.Commit(ctx, key, c)
	}
	return s.b.commit(s.IndexedStore, ctx, key, c)
}

func (s brokenStore) Load(ctx context.Context, key string) (sessionstore.Record, error) {
	r, err := s.IndexedStore.Load(ctx, key)
	if s.b.load != nil && err == nil {
		r = s.b.load(r)
	}
	return r, err
}

func (s brokenStore) Touch(ctx context.Context, key string, ttl time.Duration) error {
	if s.b.touch == nil {
		return s.IndexedStore.Touch(ctx, key, ttl)
	}
	return s.b.touch(s.IndexedStore, ctx, key, ttl)
}

func (s brokenStore) Note(ctx context.Context, user, key string, ttl time.Duration) error {
	if s.b.note == nil {
		return s.IndexedStore.Note(ctx, user, key, ttl)
	}
	return s.b.note(s.IndexedStore, ctx, user, key, ttl)
}

func (s brokenStore) Noted(ctx context.Context, user string) ([]string, error) {
	keys, err := s.IndexedStore.Noted(ctx, user)
	if s.b.noted != nil {
		keys = s.b.noted(keys)
	}
	return keys, err
}

func (s brokenStore) Delete(ctx context.Context, key string) (sessionstore.Moved, error) {
	if s.b.del == nil {
		return s.IndexedStore.Delete(ctx, key)
	}
	return s.b.del(s.IndexedStore, ctx, key)
}

// changing breaks Commit: f edits the Change before the store gets it.
func changing(f func(*sessionstore.Change)) func(sessionstore.Store, context.Context, string, sessionstore.Change) (sessionstore.Result, error) {
	return func(s sessionstore.Store, ctx context.Context, key string, c sessionstore.Change) (sessionstore.Result, error) {
		f(&c)
		return s.Commit(ctx, key, c)
	}
}

// answering breaks Commit: f replaces its results.
func answering(f func(sessionstore.Result, error) (sessionstore.Result, error)) func(sessionstore.Store, context.Context, string, sessionstore.Change) (sessionstore.Result, error) {
	return func(s sessionstore.Store, ctx context.Context, key string, c sessionstore.Change) (sessionstore.Result, error) {
		return f(s.Commit(ctx, key, c))
	}
}

func upsert(s sessionstore.Store, ctx context.Context, key string, c sessionstore.Change) (sessionstore.Result, error) {
	res, err := s.Commit(ctx, key, c)
	if errors.Is(err, sessionstore.ErrNotFound) {
		c.Create, c.Version, c.Unchanged = true, "", nil
		return s.Commit(ctx, key, c)
	}
	return res, err
}

func overwrite(s sessionstore.Store, ctx context.Context, key string, c sessionstore.Change) (sessionstore.Result, error) {
	if c.Create {
		s.Delete(ctx, key)
	}
	return s.Commit(ctx, key, c)
}

// inTwoSteps breaks OpIncr or OpTake: it reads the value in one step and writes in another.
func inTwoSteps(kind sessionstore.OpKind) func(sessionstore.Store, context.Context, string, sessionstore.Change) (sessionstore.Result, error) {
	meet := meeting()
	return func(s sessionstore.Store, ctx context.Context, key string, c sessionstore.Change) (sessionstore.Result, error) {
		if len(c.Ops) != 1 || c.Ops[0].Kind != kind {
			return s.Commit(ctx, key, c)
		}
		probe, err := s.Commit(ctx, key, sessionstore.Change{TTL: c.TTL, Ops: []sessionstore.Op{{Kind: sessionstore.OpIncr, Key: "\x00probe"}}})
		if err != nil {
			return probe, err
		}
		r, _ := s.Load(ctx, key)
		meet(key)
		i := slices.IndexFunc(r.Fields, func(f sessionstore.Field) bool { return f.Key == c.Ops[0].Key })
		ops := []sessionstore.Op{{Kind: sessionstore.OpDelete, Key: "\x00probe"}, {Kind: sessionstore.OpDelete, Key: c.Ops[0].Key}}
		var old []byte
		if i >= 0 {
			old = r.Fields[i].Value
			if kind == sessionstore.OpIncr {
				ops = append(ops, sessionstore.Op{Kind: sessionstore.OpPut, Key: c.Ops[0].Key, Value: old})
			}
		}
		ops = append(ops, c.Ops...)
		res, err := s.Commit(ctx, key, sessionstore.Change{TTL: c.TTL, Ops: ops})
		if err == nil {
			res.Values = res.Values[len(ops)-1:]
			if kind == sessionstore.OpTake {
				res.Values[0] = old
			}
		}
		return res, err
	}
}

// meeting returns a function for a broken store to call between its two steps. The function waits
// until it is called a second time for the same key, but at most for two seconds. So two commits
// read before one of them writes.
func meeting() func(key string) {
	var mu sync.Mutex
	waiting := make(map[string]chan bool)
	return func(key string) {
		mu.Lock()
		other, ok := waiting[key]
		if ok {
			close(other)
			delete(waiting, key)
			mu.Unlock()
			return
		}
		me := make(chan bool)
		waiting[key] = me
		mu.Unlock()
		select {
		case <-me:
		case <-time.After(2 * time.Second):
			mu.Lock()
			defer mu.Unlock()
			if waiting[key] == me {
				delete(waiting, key)
			}
		}
	}
}

// piecemeal applies the other ops even if the last one is refused.
func piecemeal(s sessionstore.Store, ctx context.Context, key string, c sessionstore.Change) (sessionstore.Result, error) {
	res, err := s.Commit(ctx, key, c)
	if errors.Is(err, session.ErrNotNumber) && len(c.Ops) > 1 {
		s.Commit(ctx, key, sessionstore.Change{TTL: c.TTL, Ops: c.Ops[:len(c.Ops)-1]})
	}
	return res, err
}

// lateChecks checks the conditions in one step and writes in another.
func lateChecks(s sessionstore.Store, ctx context.Context, key string, c sessionstore.Change) (sessionstore.Result, error) {
	if len(c.Unchanged) > 0 && len(c.Ops) > 0 {
		if res, err := s.Commit(ctx, key, sessionstore.Change{TTL: c.TTL, Unchanged: c.Unchanged}); err != nil {
			return res, err
		}
		<-time.After(20 * time.Millisecond)
		c.Unchanged = nil
	}
	return s.Commit(ctx, key, c)
}

var breakages = []breakage{
	{name: "creates over a session", case_: "create/taken", commit: overwrite},
	{name: "creates what is missing", case_: "missing", commit: upsert},
	{name: "creates what is missing, after a delete", case_: "delete/race", commit: upsert},
	{name: "ignores the version", case_: "version/wrong", commit: changing(func(c *sessionstore.Change) { c.Version = "" })},
	{name: "ignores conditions", case_: "unchanged/violated", commit: changing(func(c *sessionstore.Change) { c.Unchanged = nil })},
	{name: "ignores absence", case_: "unchanged/violated", commit: changing(func(c *sessionstore.Change) {
		c.Unchanged = slices.DeleteFunc(slices.Clone(c.Unchanged), func(x sessionstore.Condition) bool { return x.Absent })
	})},
	{name: "takes empty for absent", case_: "unchanged/violated", commit: changing(func(c *sessionstore.Change) {
		c.Unchanged = slices.Clone(c.Unchanged)
		for i := range c.Unchanged {
			c.Unchanged[i].Absent = c.Unchanged[i].Absent || string(c.Unchanged[i].Value) == `""`
		}
	})},
	{name: "checks one condition of several", case_: "unchanged/all-or-nothing", commit: changing(func(c *sessionstore.Change) {
		c.Unchanged = c.Unchanged[:min(1, len(c.Unchanged))]
	})},
	{name: "checks and then writes", case_: "crowd/conditions", commit: lateChecks},
	{name: "ignores the size", case_: "size", commit: changing(func(c *sessionstore.Change) { c.MaxSize = 0 })},
	{name: "ignores the size of a new session", case_: "size/new", commit: changing(func(c *sessionstore.Change) {
		if c.Create {
			c.MaxSize = 0
		}
	})},
	{name: "lets no large session shrink", case_: "size", commit: noShrink},
	{name: "looks at the size and then writes", case_: "size/crowd", commit: lateSize()},
	{name: "writes in pieces", case_: "unchanged/all-or-nothing", commit: piecemeal},
	{name: "adds in two steps", case_: "incr/crowd", commit: inTwoSteps(sessionstore.OpIncr)},
	{name: "takes in two steps", case_: "take/once", commit: inTwoSteps(sessionstore.OpTake)},
	{name: "does not say which keys", case_: "unchanged/violated", commit: answering(func(r sessionstore.Result, err error) (sessionstore.Result, error) {
		if errors.Is(err, session.ErrConflict) {
			err = &sessionstore.ConflictError{}
		}
		return r, err
	})},
	{name: "returns no values", case_: "ops/results", commit: answering(func(r sessionstore.Result, err error) (sessionstore.Result, error) { r.Values = nil; return r, err })},
	{name: "returns an empty value for none", case_: "ops/results", commit: answering(func(r sessionstore.Result, err error) (sessionstore.Result, error) {
		for i := range r.Values {
			if r.Values[i] == nil {
				r.Values[i] = []byte{}
			}
		}
		return r, err
	})},
	{name: "returns an old version", case_: "version/right", commit: answering(func(r sessionstore.Result, err error) (sessionstore.Result, error) { r.Version = "0"; return r, err })},
	{name: "always one version", case_: "version/changes", load: func(r sessionstore.Record) sessionstore.Record { r.Version = "1"; return r },
		commit: func(s sessionstore.Store, ctx context.Context, key string, c sessionstore.Change) (sessionstore.Result, error) {
			c.Version = ""
			res, err := s.Commit(ctx, key, c)
			res.Version = "1"
			return res, err
		}},
	{name: "lives for ever", case_: "ttl/ends", commit: changing(func(c *sessionstore.Change) { c.TTL = 0 })},
	{name: "does not renew the lifetime", case_: "ttl/renewed", commit: func(s sessionstore.Store, ctx context.Context, key string, c sessionstore.Change) (sessionstore.Result, error) {
		if r, err := s.Load(ctx, key); err == nil {
			c.TTL = r.TTL
		}
		return s.Commit(ctx, key, c)
	}},
	{name: "for ever is a day", case_: "ttl/for-ever", commit: changing(func(c *sessionstore.Change) {
		if c.TTL == 0 {
			c.TTL = 24 * time.Hour
		}
	})},
	{name: "the longest lifetime is a millisecond", case_: "ttl/longest", commit: changing(func(c *sessionstore.Change) {
		if c.TTL+time.Millisecond < c.TTL {
			c.TTL = time.Millisecond
		}
	})},
	{name: "does not tell the lifetime", case_: "create", load: func(r sessionstore.Record) sessionstore.Record { r.TTL = 0; return r }},
	{name: "forgets the deadline", case_: "deadline", commit: changing(func(c *sessionstore.Change) { c.Deadline = time.Time{} })},
	{name: "touches by writing", case_: "touch", touch: func(s sessionstore.Store, ctx context.Context, key string, ttl time.Duration) error {
		s.Commit(ctx, key, sessionstore.Change{TTL: ttl})
		return nil
	}},
	{name: "does not touch", case_: "touch", touch: func(sessionstore.Store, context.Context, string, time.Duration) error { return nil }},
	{name: "touch only prolongs", case_: "touch/shortens", touch: func(s sessionstore.Store, ctx context.Context, key string, ttl time.Duration) error {
		if r, err := s.Load(ctx, key); err == nil && r.TTL < ttl {
			return s.Touch(ctx, key, ttl)
		}
		return nil
	}},
	{name: "touch creates", case_: "touch/nothing", touch: func(s sessionstore.Store, ctx context.Context, key string, ttl time.Duration) error {
		s.Commit(ctx, key, sessionstore.Change{Create: true, TTL: ttl})
		return s.Touch(ctx, key, ttl)
	}},
	{name: "touches tombstones", case_: "moved/ends", touch: func(s sessionstore.Store, ctx context.Context, key string, ttl time.Duration) error {
		r, err := s.Load(ctx, key)
		if err != nil || r.Moved.To.Text() != "" { // err: on a busy machine, the tombstone has expired by now
			r.TTL = ttl
			revive(s, ctx, key, r)
		}
		return s.Touch(ctx, key, ttl)
	}},
	{name: "does not delete", case_: "delete", del: func(sessionstore.Store, context.Context, string) (sessionstore.Moved, error) {
		return sessionstore.Moved{}, nil
	}},
	{name: "error for an absent key", case_: "delete", del: func(s sessionstore.Store, ctx context.Context, key string) (sessionstore.Moved, error) {
		if _, err := s.Load(ctx, key); err != nil {
			return sessionstore.Moved{}, err
		}
		return s.Delete(ctx, key)
	}},
	{name: "does not say where it went", case_: "moved/deleted", del: func(s sessionstore.Store, ctx context.Context, key string) (sessionstore.Moved, error) {
		_, err := s.Delete(ctx, key)
		return sessionstore.Moved{}, err
	}},
	{name: "forgets when", case_: "moved", load: func(r sessionstore.Record) sessionstore.Record { r.Moved.At = time.Time{}; return r }},
	{name: "tombstones are empty", case_: "moved", load: func(r sessionstore.Record) sessionstore.Record {
		if r.Moved.To.Text() != "" {
			r.Fields = nil
		}
		return r
	}},
	{name: "tombstones are written to", case_: "moved", commit: func(s sessionstore.Store, ctx context.Context, key string, c sessionstore.Change) (sessionstore.Result, error) {
		if r, err := s.Load(ctx, key); err == nil && r.Moved.To.Text() != "" && !c.Create {
			revive(s, ctx, key, r)
		}
		return s.Commit(ctx, key, c)
	}},
	{name: "moves whatever the version", case_: "moved/conditions", commit: changing(func(c *sessionstore.Change) {
		if c.Move.To.Text() != "" {
			c.Version = ""
		}
	})},
	{name: "moves a copy", case_: "moved/race", commit: moveCopy()},
	{name: "one index for all users", case_: "index", note: func(s sessionstore.Index, ctx context.Context, user, key string, ttl time.Duration) error {
		s.Note(ctx, user[:len(user)-1]+"a", key, ttl)
		return s.Note(ctx, user, key, ttl)
	}},
	{name: "notes nothing", case_: "index/ends", note: func(sessionstore.Index, context.Context, string, string, time.Duration) error { return nil }},
	{name: "finds nothing new", case_: "index/forgets", noted: func([]string) []string { return nil }},
	{name: "keeps ten keys of a user", case_: "index/crowd", noted: func(keys []string) []string { return keys[max(0, len(keys)-10):] }},
	{name: "ignores the context", case_: "context", commit: func(s sessionstore.Store, _ context.Context, key string, c sessionstore.Change) (sessionstore.Result, error) {
		return s.Commit(context.Background(), key, c)
	}},
}

func sizeOf(r sessionstore.Record) (n int) {
	for _, f := range r.Fields {
		n += len(f.Key) + len(f.Value)
	}
	return n
}

func noShrink(s sessionstore.Store, ctx context.Context, key string, c sessionstore.Change) (sessionstore.Result, error) {
	if r, err := s.Load(ctx, key); err == nil && c.MaxSize > 0 && sizeOf(r) > c.MaxSize {
		return sessionstore.Result{}, session.ErrTooLarge
	}
	return s.Commit(ctx, key, c)
}

// lateSize checks the size in one step and writes in another.
func lateSize() func(sessionstore.Store, context.Context, string, sessionstore.Change) (sessionstore.Result, error) {
	meet := meeting()
	return func(s sessionstore.Store, ctx context.Context, key string, c sessionstore.Change) (sessionstore.Result, error) {
		if c.MaxSize > 0 && !c.Create {
			r, err := s.Load(ctx, key)
			if err == nil && sizeOf(r) > c.MaxSize {
				return sessionstore.Result{}, session.ErrTooLarge
			}
			meet(key)
			c.MaxSize = 0
		}
		return s.Commit(ctx, key, c)
	}
}

// revive turns a tombstone into a live session.
func revive(s sessionstore.Store, ctx context.Context, key string, r sessionstore.Record) {
	s.Delete(ctx, key)
	c := sessionstore.Change{Create: true, TTL: r.TTL}
	for _, f := range r.Fields {
		c.Ops = append(c.Ops, sessionstore.Op{Kind: sessionstore.OpPut, Key: f.Key, Value: f.Value})
	}
	s.Commit(ctx, key, c)
}

// moveCopy reads the session in one step and moves that copy in another, so it loses later writes.
// Between the two steps it waits for a write, if many writes of the session came before.
func moveCopy() func(sessionstore.Store, context.Context, string, sessionstore.Change) (sessionstore.Result, error) {
	const many = 5
	var mu sync.Mutex
	var writes sync.Map // by key: an *atomic.Int64
	return func(s sessionstore.Store, ctx context.Context, key string, c sessionstore.Change) (sessionstore.Result, error) {
		n, _ := writes.LoadOrStore(key, new(atomic.Int64))
		written := n.(*atomic.Int64)
		if c.Move.To.Text() == "" {
			res, err := s.Commit(ctx, key, c)
			if err == nil {
				written.Add(1)
			}
			return res, err
		}
		mu.Lock()
		defer mu.Unlock()
		r, err := s.Load(ctx, key)
		if err != nil || c.Version != "" && c.Version != r.Version {
			return sessionstore.Result{}, &sessionstore.ConflictError{}
		}
		before := written.Load()
		for before > many && written.Load() == before && ctx.Err() == nil {
			<-time.After(time.Millisecond)
		}
		c.Version = ""
		for _, f := range r.Fields {
			c.Ops = append(c.Ops, sessionstore.Op{Kind: sessionstore.OpPut, Key: f.Key, Value: f.Value})
		}
		return s.Commit(ctx, key, c)
	}
}

// TestSuiteNotices runs the suite over stores that break one rule each. Most
// of its time is waiting, so many run at once.
func TestSuiteNotices(t *testing.T) {
	server.Thorough(t)
	found := make([][]sessiontest.Failure, len(breakages))
	var wg sync.WaitGroup
	slots := make(chan bool, 10)
	for i := range breakages {
		slots <- true
		wg.Go(func() {
			store := brokenStore{sessionstore.NewMemory(), &breakages[i]}
			found[i] = sessiontest.Check(sessiontest.Harness{Open: same(store), Patience: 5 * time.Second, Expire: 40 * time.Millisecond})
			<-slots
		})
	}
	wg.Wait()
	for i, b := range breakages {
		t.Run(strings.ReplaceAll(b.name, " ", "-"), func(t *testing.T) {
			if !slices.ContainsFunc(found[i], func(f sessiontest.Failure) bool { return f.Case == b.case_ }) {
				t.Errorf("the case %s did not notice; others said %v", b.case_, found[i])
			}
		})
	}
}

func TestSuiteFindsNothingInAGoodStore(t *testing.T) {
	if failures := sessiontest.Check(sessiontest.Harness{Open: same(sessionstore.NewMemory())}); len(failures) > 0 {
		t.Error(failures)
	}
}
