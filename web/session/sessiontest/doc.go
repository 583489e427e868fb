// Package sessiontest checks that a store of sessions keeps the contract of sessionstore.Store, or
// of sessionstore.BlobStore (RunBlobs). It is for authors of stores. A program that uses sessions
// does not need it.
//
//	func TestContract(t *testing.T) {
//		sessiontest.Run(t, sessiontest.Harness{Open: func() (sessionstore.Store, error) { … }})
//	}
//
// Each case uses its own keys. So cases can run in parallel, and several suites can run on one
// server.
package sessiontest

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/padlock-go/padlock/web/session/sessionstore"
)

// A Harness describes a store to the suite.
type Harness struct {
	// Open returns a handle on the store. The suite calls Open twice, and both handles must have
	// the same sessions, as in two processes.
	Open func() (sessionstore.Store, error)
	// Encode encodes a value as the store keeps it; nil means JSON. It is called with strings and
	// int64s.
	Encode func(v any) []byte
	// Keys are keys that the store must be able to keep; nil means a built-in list of unusual keys.
	Keys []string
	// Expire is the shortest lifetime that the suite can measure; 0 means 150 ms.
	Expire time.Duration
	// Patience is how long a case may take; 0 means 30 s.
	Patience time.Duration
}

// A Failure is a rule that the store broke.
type Failure struct {
	Case string // the name of the case's subtest
	Text string
	At   string // file and line of the case
}

// String returns the failure as Run reports it.
func (f Failure) String() string { return f.Case + ": " + f.Text + " (" + f.At + ")" }

// Run checks the store, each case in a subtest.
func Run(t *testing.T, h Harness) {
	s, err := start(h)
	s.runAll(t, cases, err)
}

// Check runs all cases and returns their failures.
func Check(h Harness) []Failure {
	s, err := start(h)
	return s.checkAll(cases, err)
}

func (s *suite) runAll(t *testing.T, cases []testCase, opened error) {
	if opened != nil {
		t.Fatal(opened)
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			for _, f := range s.run(c) {
				t.Errorf("%s (%s)", f.Text, f.At)
			}
		})
	}
}

func (s *suite) checkAll(cases []testCase, opened error) []Failure {
	if opened != nil {
		return []Failure{{"open", opened.Error(), ""}}
	}
	results := make([][]Failure, len(cases))
	var wg sync.WaitGroup
	for i, c := range cases {
		wg.Go(func() { results[i] = s.run(c) })
	}
	wg.Wait()
	return slices.Concat(results...)
}

type suite struct {
	Harness
	a, b sessionstore.Store
}

type testCase struct {
	name string
	f    func(*check)
}

func (h *Harness) setDefaults() {
	if h.Encode == nil {
		h.Encode = func(v any) []byte { b, _ := json.Marshal(v); return b }
	}
	if h.Keys == nil {
		h.Keys = []string{"k", "é", "with space", "a:b|c", "\x00", "{x}", "'", `"\`, "5", "-5", "%s", "version", strings.Repeat("k", sessionstore.MaxKey)}
	}
	if h.Expire == 0 {
		h.Expire = 150 * time.Millisecond
	}
	if h.Patience == 0 {
		h.Patience = 30 * time.Second
	}
}

func start(h Harness) (*suite, error) {
	h.setDefaults()
	s := &suite{Harness: h}
	var err error
	if s.a, err = h.Open(); err == nil {
		s.b, err = h.Open()
	}
	return s, err
}

// check is one run of one case.
type check struct {
	*suite
	name string
	key  string // used by this case only
	ctx  context.Context

	mu       sync.Mutex
	failures []Failure
	over     bool
}

func (s *suite) run(c testCase) []Failure {
	ctx, cancel := context.WithTimeout(context.Background(), s.Patience)
	defer cancel()
	k := &check{suite: s, name: c.name, key: rand.Text(), ctx: ctx}
	k.protect(func() { c.f(k) })
	k.mu.Lock()
	defer k.mu.Unlock()
	k.over = true // if the case failed, its goroutines may still run until ctx ends
	return k.failures
}

type stop struct{}

func (c *check) errorf(format string, args ...any) {
	_, file, line, _ := runtime.Caller(1)
	for up := 2; !strings.HasPrefix(filepath.Base(file), "cases_") && up < 8; up++ {
		_, file, line, _ = runtime.Caller(up)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.over && len(c.failures) < 10 {
		c.failures = append(c.failures, Failure{c.name, fmt.Sprintf(format, args...), fmt.Sprintf("%s:%d", filepath.Base(file), line)})
	}
}

func (c *check) failf(format string, args ...any) {
	c.errorf(format, args...)
	panic(stop{})
}

// long is a lifetime that does not end during a case.
const long = time.Hour

// create makes the case's session.
func (c *check) create(ops ...sessionstore.Op) sessionstore.Result {
	return c.make(sessionstore.Change{Create: true, TTL: long, Ops: ops})
}

// make makes the case's session with the change ch.
func (c *check) make(ch sessionstore.Change) sessionstore.Result {
	res, err := c.a.Commit(c.ctx, c.key, ch)
	if err != nil {
		c.failf("a session cannot be created: %v", err)
	}
	return res
}

// commit calls Commit with the change ch on the case's session. If ch has no lifetime, the session
// lives for an hour.
func (c *check) commit(ch sessionstore.Change) (sessionstore.Result, error) {
	if ch.TTL == 0 {
		ch.TTL = long
	}
	return c.b.Commit(c.ctx, c.key, ch)
}

// change calls commit, which must succeed.
func (c *check) change(ch sessionstore.Change) {
	if _, err := c.commit(ch); err != nil {
		c.failf("Commit: %v", err)
	}
}

// refused calls commit, which must fail with the error want.
func (c *check) refused(what string, ch sessionstore.Change, want error) {
	if _, err := c.commit(ch); !errors.Is(err, want) {
		c.errorf("%s: %v, want %v", what, err, want)
	}
}

func (c *check) touch(ttl time.Duration) {
	if err := c.a.Touch(c.ctx, c.key, ttl); err != nil {
		c.failf("Touch: %v", err)
	}
}

// value returns the value of the only op of a commit.
func (c *check) value(res sessionstore.Result) []byte {
	if len(res.Values) != 1 {
		c.errorf("%d values for one op", len(res.Values))
		return nil
	}
	return res.Values[0]
}

func (c *check) load() sessionstore.Record {
	r, err := c.b.Load(c.ctx, c.key)
	if err != nil {
		c.failf("Load: %v", err)
	}
	return r
}

func (c *check) put(key string, v any) sessionstore.Op {
	return sessionstore.Op{Kind: sessionstore.OpPut, Key: key, Value: c.Encode(v)}
}

func (c *check) was(key string, v any) sessionstore.Condition {
	return sessionstore.Condition{Key: key, Value: c.Encode(v)}
}

func absent(key string) sessionstore.Condition { return sessionstore.Condition{Key: key, Absent: true} }
func del(key string) sessionstore.Op           { return sessionstore.Op{Kind: sessionstore.OpDelete, Key: key} }
func take(key string) sessionstore.Op          { return sessionstore.Op{Kind: sessionstore.OpTake, Key: key} }
func incr(key string, n int64) sessionstore.Op {
	return sessionstore.Op{Kind: sessionstore.OpIncr, Key: key, Delta: n}
}

// has checks that the session has exactly these keys and values.
func (c *check) has(want map[string]any) {
	r := c.load()
	c.fields(r, want)
}

func (c *check) fields(r sessionstore.Record, want map[string]any) {
	got := make(map[string][]byte)
	for _, f := range r.Fields {
		if _, twice := got[f.Key]; twice {
			c.errorf("key %.40q is listed twice", f.Key)
		}
		got[f.Key] = f.Value
	}
	for k, v := range want {
		if !bytes.Equal(got[k], c.Encode(v)) {
			c.errorf("key %.40q is %.80q, want %.80q", k, got[k], c.Encode(v))
		}
		delete(got, k)
	}
	for k := range got {
		c.errorf("there is a key %.40q that nobody put", k)
	}
}

// eventually calls f until it returns true.
func (c *check) eventually(what string, f func() bool) {
	for !f() {
		select {
		case <-c.ctx.Done():
			c.failf("after %v still not: %s", c.Patience, what)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// crowd runs f n times at once.
func (c *check) crowd(n int, f func(i int)) {
	var wg sync.WaitGroup
	for i := range n {
		c.spawn(&wg, func() { f(i) })
	}
	wg.Wait()
}

// spawn runs f in a goroutine. If f calls failf, only that goroutine ends.
func (c *check) spawn(wg *sync.WaitGroup, f func()) {
	wg.Go(func() { c.protect(f) })
}

func (c *check) protect(f func()) {
	defer func() {
		if r := recover(); r != nil && r != (stop{}) {
			c.errorf("panic: %v\n%s", r, debug.Stack())
		}
	}()
	f()
}
