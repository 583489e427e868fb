// Package gorillastore is a store for github.com/gorilla/sessions that loses no write in silence. A
// program changes the line that makes its store:
//
//	var store = gorillastore.New(sessionstore.NewMemory())
//
// If requests of one session write different keys of Session.Values at the same time, all of these
// writes are kept. If two requests change the same key, the Save of the second one returns
// session.ErrConflict and saves nothing. Lists, and so flash messages, are an exception: what both
// requests appended is kept. A session that was deleted stays deleted.
//
// The cookie has only a random id, so no keys for signatures are needed. An id that the store does
// not know is never adopted. As everywhere in gorilla/sessions, the program saves the session
// before it writes the answer, and checks the error of Save. [session.Status] turns that error into
// the status of an answer.
//
// Use it in programs that move from gorilla/sessions to package session step by step. A new program
// should use package session instead. docs/moving-sessions.md compares the two.
package gorillastore

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"sync"
	"time"
	"weak"

	"github.com/gorilla/sessions"

	"github.com/padlock-go/padlock/web/session"
	"github.com/padlock-go/padlock/web/session/sessionstore"
)

// DefaultMaxAge is how long cookies and sessions live after a Save, in seconds: 30 days, as in the
// stores of gorilla/sessions.
const DefaultMaxAge = 86400 * 30

// MaxSize is the maximum size of a session, in bytes. A Save that exceeds it returns
// session.ErrTooLarge.
const MaxSize = 1 << 20

// patience is how long a Save may take. It goes on if the client has left.
const patience = 5 * time.Second

// ErrUntracked is the error of Save for a session that was not made by Get or New of this Store, or
// that is a copy. The Store does not know what such a session was like when it was loaded.
var ErrUntracked = errors.New("gorillastore: the session does not come from Get or New of this store")

// Store implements sessions.Store with a sessionstore.Store. It is safe for concurrent use.
type Store struct {
	// Options are the options of new sessions. Change them before the first request. A session
	// whose MaxAge is negative is deleted by Save. A session whose MaxAge is 0 has a cookie that
	// ends with the browser, and is stored for DefaultMaxAge.
	Options *sessions.Options

	store sessionstore.Store

	mu     sync.Mutex
	loaded map[weak.Pointer[sessions.Session]]func() *base // funcs, so that no printer finds the ids
}

var _ sessions.Store = (*Store)(nil)

// base is a session as it was loaded or last saved. If id is "", the session is not stored yet.
type base struct {
	id      string
	version string
	fields  map[string][]byte
	failed  error // the store could not be read, so Save must not replace the session
}

// New returns a Store that keeps its sessions in s. It panics if s shares its sessions with PHP,
// because PHP must not be disturbed by writers without its lock.
func New(s sessionstore.Store) *Store {
	if s.Traits().CommitsNeedLock {
		panic("gorillastore: New: these sessions are shared with another program; use package session")
	}
	return &Store{
		Options: &sessions.Options{Path: "/", MaxAge: DefaultMaxAge, HttpOnly: true, SameSite: http.SameSiteLaxMode},
		store:   s,
		loaded:  make(map[weak.Pointer[sessions.Session]]func() *base),
	}
}

// MaxAge sets Options.MaxAge, as in the stores of gorilla/sessions.
func (s *Store) MaxAge(seconds int) { s.Options.MaxAge = seconds }

// Get returns the session of the request. A second call in the same request returns the same
// session. See New.
func (s *Store) Get(r *http.Request, name string) (*sessions.Session, error) {
	return sessions.GetRegistry(r).Get(s, name)
}

// New loads the session again for each call. If the client has no session, or one that has ended,
// New returns a new session. If the stored session cannot be decoded, New returns a new session and
// an error; a Save then stores it under a new id. If the store cannot be reached, the error is
// returned by New and by Save, so a program that ignores it in New does not replace the session.
func (s *Store) New(r *http.Request, name string) (*sessions.Session, error) {
	out := sessions.NewSession(s, name)
	opts := *s.Options
	out.Options, out.IsNew = &opts, true
	b, err := s.find(r, name)
	if err == nil && b.id != "" {
		values, bad := decode(b.fields)
		if err = bad; err == nil {
			out.ID, out.Values, out.IsNew = b.id, values, false
		} else {
			b = &base{}
		}
	}
	s.track(out, b)
	return out, err
}

// find loads the session whose id is in the cookie. A browser may send two cookies of one name.
func (s *Store) find(r *http.Request, name string) (*base, error) {
	for _, c := range r.CookiesNamed(name) {
		if !validID(c.Value) {
			continue
		}
		rec, err := s.store.Load(r.Context(), storeKey(name, c.Value))
		switch {
		case err == nil && rec.Moved.To.Text() == "":
			return newBase(c.Value, rec), nil
		case err == nil, errors.Is(err, sessionstore.ErrNotFound):
		case errors.Is(err, sessionstore.ErrRefused):
			return &base{}, fmt.Errorf("gorillastore: %w", err)
		default:
			err = fmt.Errorf("gorillastore: %w", err)
			return &base{failed: err}, err
		}
	}
	return &base{}, nil
}

func newBase(id string, rec sessionstore.Record) *base {
	b := &base{id: id, version: rec.Version, fields: make(map[string][]byte, len(rec.Fields))}
	for _, f := range rec.Fields {
		b.fields[f.Key] = f.Value
	}
	return b
}

// track remembers what out was like, for as long as out is in use.
func (s *Store) track(out *sessions.Session, b *base) {
	key := weak.Make(out)
	s.mu.Lock()
	_, known := s.loaded[key]
	s.loaded[key] = func() *base { return b }
	s.mu.Unlock()
	if !known {
		runtime.AddCleanup(out, s.forget, key)
	}
}

func (s *Store) forget(key weak.Pointer[sessions.Session]) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.loaded, key)
}

func (s *Store) tracked(out *sessions.Session) *base {
	s.mu.Lock()
	defer s.mu.Unlock()
	if b := s.loaded[weak.Make(out)]; b != nil {
		return b()
	}
	return nil
}

// Save stores the keys of Values that the request has changed, and sets the cookie. If MaxAge is
// negative, it deletes the session and the cookie. If the program has set ID to "", for example at
// a login, the session gets a new id and the old id ends.
//
// If the error is not nil, nothing is saved and no cookie is set. If errors.Is finds
// session.ErrConflict in it, another request has changed a key that this request changed. If it
// finds session.ErrDestroyed, the session has ended. After other errors of the store, the session
// may have been saved.
func (s *Store) Save(r *http.Request, w http.ResponseWriter, out *sessions.Session) error {
	b := s.tracked(out)
	switch {
	case b == nil:
		return ErrUntracked
	case b.failed != nil:
		return b.failed
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), patience)
	defer cancel()
	if out.Options.MaxAge < 0 {
		return s.remove(ctx, w, out, b)
	}
	after, err := s.save(ctx, out, b)
	if err != nil {
		return fmt.Errorf("gorillastore: %w", err)
	}
	out.ID = after.id
	s.track(out, after)
	setCookie(w, out)
	return nil
}

// remove deletes the session. Requests that are under way can no longer save it.
func (s *Store) remove(ctx context.Context, w http.ResponseWriter, out *sessions.Session, b *base) error {
	if b.id != "" {
		if _, err := s.store.Delete(ctx, storeKey(out.Name(), b.id)); err != nil {
			return fmt.Errorf("gorillastore: %w", err)
		}
	}
	out.ID = ""
	s.track(out, &base{})
	setCookie(w, out)
	return nil
}

func setCookie(w http.ResponseWriter, out *sessions.Session) {
	http.SetCookie(w, sessions.NewCookie(out.Name(), out.ID, out.Options))
}

func lifetime(out *sessions.Session) time.Duration {
	if out.Options.MaxAge == 0 {
		return DefaultMaxAge * time.Second
	}
	return time.Duration(out.Options.MaxAge) * time.Second
}

// save stores what the request changed. If another request was faster and both only appended to
// lists, save tries again with the lists of both. It ends, because each round that fails is one in
// which another request has succeeded.
func (s *Store) save(ctx context.Context, out *sessions.Session, b *base) (*base, error) {
	edits, err := compare(b.fields, out.Values)
	if err != nil {
		return nil, err
	}
	for {
		after, err := s.try(ctx, out, b, edits)
		if err == nil {
			return after, show(edits, out.Values)
		}
		if !errors.Is(err, sessionstore.ErrConflict) {
			return nil, err
		}
		b, edits, err = s.rebase(ctx, out.Name(), b, edits, err)
		if err != nil {
			return nil, err
		}
	}
}

// try makes one attempt.
func (s *Store) try(ctx context.Context, out *sessions.Session, b *base, edits []edit) (*base, error) {
	change := sessionstore.Change{TTL: lifetime(out), MaxSize: MaxSize}
	switch {
	case b.id == "" || out.ID == "":
		return s.create(ctx, out.Name(), b, edits, change)
	case len(edits) == 0:
		return b, s.store.Touch(ctx, storeKey(out.Name(), b.id), change.TTL)
	}
	change.Ops, change.Unchanged = ops(edits)
	res, err := s.store.Commit(ctx, storeKey(out.Name(), b.id), change)
	if err != nil {
		return nil, ended(err)
	}
	return &base{id: b.id, version: res.Version, fields: apply(edits, b.fields)}, nil
}

// create stores the session under a new id. If it had an id before, that id ends.
func (s *Store) create(ctx context.Context, name string, b *base, edits []edit, change sessionstore.Change) (*base, error) {
	after := &base{id: newID(), fields: apply(edits, b.fields)}
	change.Create = true
	for field, raw := range after.fields {
		change.Ops = append(change.Ops, sessionstore.Op{Kind: sessionstore.OpPut, Key: field, Value: raw})
	}
	key := storeKey(name, after.id)
	res, err := s.store.Commit(ctx, key, change)
	if err != nil {
		return nil, err
	}
	after.version = res.Version
	if b.id == "" {
		return after, nil
	}
	move := sessionstore.Change{Version: b.version, Move: sessionstore.Moved{To: sessionstore.KeyOf(key), At: time.Now()}, TTL: time.Minute}
	if _, err := s.store.Commit(ctx, storeKey(name, b.id), move); err != nil {
		_, undo := s.store.Delete(ctx, key) // nobody knows this id
		return nil, errors.Join(ended(err), undo)
	}
	return after, nil
}

// rebase returns the session as it is now, and edits that lead from there to the session that the
// request wants. If there are no such edits, it returns the conflict.
func (s *Store) rebase(ctx context.Context, name string, b *base, edits []edit, conflict error) (*base, []edit, error) {
	rec, err := s.store.Load(ctx, storeKey(name, b.id))
	if err != nil {
		return nil, nil, ended(err)
	}
	if rec.Moved.To.Text() != "" {
		return nil, nil, session.ErrDestroyed
	}
	now := newBase(b.id, rec)
	edits, ok := merge(edits, now.fields)
	if !ok {
		return nil, nil, conflict
	}
	return now, edits, nil
}

// ended returns ErrDestroyed if err says that the session is gone or has a new id.
func ended(err error) error {
	if errors.Is(err, sessionstore.ErrNotFound) || errors.Is(err, sessionstore.ErrMoved) {
		return session.ErrDestroyed
	}
	return err
}

// newID returns 256 random bits.
func newID() string {
	var raw [sha256.Size]byte
	rand.Read(raw[:])
	return base64.RawURLEncoding.EncodeToString(raw[:])
}

func validID(id string) bool {
	raw, err := base64.RawURLEncoding.Strict().DecodeString(id)
	return err == nil && len(raw) == sha256.Size
}

// storeKey does not reveal the id. It contains the name, so the id of one kind of session is no id
// of another kind.
func storeKey(name, id string) string {
	sum := sha256.Sum256([]byte(name + "\x00" + id))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}
