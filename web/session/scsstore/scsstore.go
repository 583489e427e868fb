// Package scsstore is a store for github.com/alexedwards/scs/v2 that loses fewer writes than scs
// alone. If requests of one session write different keys at the same time, all of these writes are
// kept. A session that was destroyed stays destroyed.
//
//	manager := scs.New()
//	store := scsstore.New(sessionstore.NewMemory())
//	manager.Store, manager.ErrorFunc = store, scsstore.ErrorFunc
//	handler := scsstore.Middleware(manager.LoadAndSave(mux))
//
// When scs saves a session, it gives the store the whole session. But scs does not say what the
// session was like when the request loaded it. [Middleware] lets each request remember that state,
// and the store saves only the keys that the request changed. If another request changed one of
// these keys meanwhile, nothing is saved. Without Middleware the store refuses to save.
//
// Use it in programs that move from scs to package session step by step. A new program should use
// package session instead. docs/sessions.md lists what package scsstore cannot do.
package scsstore

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"sync"
	"time"

	"github.com/alexedwards/scs/v2"

	"github.com/padlock-go/padlock/web/session"
	"github.com/padlock-go/padlock/web/session/sessionstore"
)

// ErrNoTracking: the context does not come from Middleware or Track, so the earlier state of the
// session is unknown.
var ErrNoTracking = errors.New("scsstore: put scsstore.Middleware outside of LoadAndSave, or use Track")

// Store implements scs.CtxStore with a sessionstore.Store. It is safe for concurrent use.
type Store struct {
	store sessionstore.Store
	codec scs.Codec
}

var _ scs.CtxStore = (*Store)(nil)

// Option configures New.
type Option func(*Store)

// ValueCodec sets the codec, which must be that of the scs.SessionManager. The default is
// scs.GobCodec, as in scs; nil leaves the default.
func ValueCodec(c scs.Codec) Option { return func(s *Store) { s.codec = cmp.Or(c, s.codec) } }

// New returns a Store that keeps its sessions in s. Tokens are hashed before they are stored. New
// panics if s shares its sessions with PHP, because PHP must not be disturbed by writers without its
// lock.
func New(s sessionstore.Store, opts ...Option) *Store {
	if s.Traits().CommitsNeedLock {
		panic("scsstore: New: these sessions are shared with another program; use package session")
	}
	st := &Store{s, scs.GobCodec{}}
	for _, o := range opts {
		if o != nil {
			o(st)
		}
	}
	return st
}

// Middleware records the state that each request loads. Put it outside of scs' LoadAndSave.
func Middleware(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		next.ServeHTTP(w, r.WithContext(Track(r.Context())))
	})
}

// Track does what Middleware does, for a context that is passed to SessionManager.Load directly.
// Each request or job needs such a context of its own.
func Track(ctx context.Context) context.Context {
	t := &tracker{loaded: make(map[string]*base)}
	return context.WithValue(ctx, trackerKey{}, func() *tracker { return t })
}

// ErrorFunc is for SessionManager.ErrorFunc. If another request has changed the session first, the
// answer is 409. Otherwise the answer is 503 with Retry-After.
func ErrorFunc(w http.ResponseWriter, _ *http.Request, err error) {
	code := session.Status(err)
	if code == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", "1")
	}
	http.Error(w, http.StatusText(code), code)
}

type trackerKey struct{}

// tracker remembers the sessions that a request loaded, by token. The request's context has a func
// that returns it, because no printer can look into a func.
type tracker struct {
	mu     sync.Mutex
	loaded map[string]*base
}

// base is a session as it was loaded. It holds the values twice: scs gives one copy to the handler,
// and the handler may change that copy in place.
type base struct {
	fields   map[string][]byte
	values   map[string]any
	deadline time.Time
}

// deadlineKey holds scs' deadline. The NUL byte makes it different from any key of scs.
const deadlineKey = "\x00deadline"

func storeKey(token string) string {
	sum := sha256.Sum256([]byte(token))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// FindCtx implements scs.CtxStore.
func (s *Store) FindCtx(ctx context.Context, token string) ([]byte, bool, error) {
	rec, err := s.store.Load(ctx, storeKey(token))
	if errors.Is(err, sessionstore.ErrNotFound) || err == nil && rec.Moved.To.Text() != "" {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	b, err := s.decode(rec)
	if err != nil {
		return nil, false, err
	}
	data, err := s.codec.Encode(b.deadline, b.values)
	if err != nil {
		return nil, false, err
	}
	if tracked, ok := ctx.Value(trackerKey{}).(func() *tracker); ok {
		t := tracked()
		t.mu.Lock()
		t.loaded[token] = b
		t.mu.Unlock()
	}
	return data, true, nil
}

func (s *Store) decode(rec sessionstore.Record) (*base, error) {
	b := &base{fields: make(map[string][]byte), values: make(map[string]any)}
	for _, f := range rec.Fields {
		b.fields[f.Key] = f.Value
		if f.Key == deadlineKey {
			if err := b.deadline.UnmarshalText(f.Value); err != nil {
				return nil, fmt.Errorf("scsstore: deadline: %w", err)
			}
			continue
		}
		_, one, err := s.codec.Decode(f.Value)
		if err != nil {
			return nil, fmt.Errorf("scsstore: value of %q: %w", f.Key, err)
		}
		b.values[f.Key] = one[f.Key]
	}
	return b, nil
}

// CommitCtx implements scs.CtxStore. It saves the keys that the request changed. If another request
// has changed one of them, errors.Is finds session.ErrConflict in the error. If the session was
// destroyed, errors.Is finds session.ErrDestroyed.
func (s *Store) CommitCtx(ctx context.Context, token string, data []byte, expiry time.Time) error {
	tracked, ok := ctx.Value(trackerKey{}).(func() *tracker)
	if !ok {
		return ErrNoTracking
	}
	t := tracked()
	deadline, values, err := s.codec.Decode(data)
	if err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	before := t.loaded[token]
	after, change, err := s.difference(before, deadline, values)
	if err != nil {
		return err
	}
	change.TTL = max(time.Until(expiry), time.Millisecond)
	if err := s.save(ctx, token, change); err != nil {
		return err
	}
	t.loaded[token] = after
	return nil
}

func (s *Store) save(ctx context.Context, token string, c sessionstore.Change) error {
	if !c.Create && len(c.Ops) == 0 {
		return s.store.Touch(ctx, storeKey(token), c.TTL) // scs only prolongs the session
	}
	_, err := s.store.Commit(ctx, storeKey(token), c)
	if errors.Is(err, sessionstore.ErrNotFound) || errors.Is(err, session.ErrMoved) {
		return fmt.Errorf("scsstore: %w", session.ErrDestroyed)
	}
	return err
}

// difference returns the change that the request made, and the session after it. If loaded is nil,
// the session is new.
func (s *Store) difference(loaded *base, deadline time.Time, values map[string]any) (*base, sessionstore.Change, error) {
	c := sessionstore.Change{Create: loaded == nil}
	if loaded == nil {
		loaded = &base{}
	}
	after := &base{fields: make(map[string][]byte), values: values, deadline: deadline}
	for key, v := range values {
		old, had := loaded.fields[key]
		if had && reflect.DeepEqual(loaded.values[key], v) {
			after.fields[key] = old
			continue
		}
		raw, err := s.codec.Encode(time.Time{}, map[string]any{key: v})
		if err != nil {
			return nil, c, fmt.Errorf("scsstore: value of %q: %w", key, err)
		}
		after.fields[key] = raw
		c.Ops = append(c.Ops, sessionstore.Op{Kind: sessionstore.OpPut, Key: key, Value: raw})
		c.Unchanged = append(c.Unchanged, sessionstore.Condition{Key: key, Absent: !had, Value: old})
	}
	for key := range loaded.values {
		if _, still := values[key]; !still {
			c.Ops = append(c.Ops, sessionstore.Op{Kind: sessionstore.OpDelete, Key: key})
			c.Unchanged = append(c.Unchanged, sessionstore.Condition{Key: key, Value: loaded.fields[key]})
		}
	}
	raw, err := deadline.MarshalText()
	if err != nil {
		return nil, c, fmt.Errorf("scsstore: deadline: %w", err)
	}
	after.fields[deadlineKey] = raw
	if !deadline.Equal(loaded.deadline) || c.Create {
		c.Ops = append(c.Ops, sessionstore.Op{Kind: sessionstore.OpPut, Key: deadlineKey, Value: raw})
	}
	return after, c, nil
}

// DeleteCtx implements scs.CtxStore. Once the session is deleted, requests that are under way
// cannot save it.
func (s *Store) DeleteCtx(ctx context.Context, token string) error {
	_, err := s.store.Delete(ctx, storeKey(token))
	return err
}

// Find implements scs.Store. It is only for reading: the session that it returns cannot be saved.
func (s *Store) Find(token string) ([]byte, bool, error) {
	return s.FindCtx(context.Background(), token)
}

// Commit implements scs.Store and always fails: without the request's context the earlier state of
// the session is unknown. scs calls CommitCtx instead.
func (s *Store) Commit(string, []byte, time.Time) error { return ErrNoTracking }

// Delete implements scs.Store.
func (s *Store) Delete(token string) error { return s.DeleteCtx(context.Background(), token) }
