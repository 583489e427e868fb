package sessionstore_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/padlock-go/padlock/web/session/sessionstore"
	"github.com/padlock-go/padlock/web/session/sessiontest"
)

var bg = context.Background()

func noError(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Error(err)
	}
}

// stepped is a store that interrupts a move. After the move has removed the session, and before it
// writes the tombstone, the store calls the function in its field between.
type stepped struct {
	*sessiontest.Blobs
	between func()
}

func (s *stepped) Remove(ctx context.Context, key string, old *sessionstore.Blob) (bool, error) {
	done, err := s.Blobs.Remove(ctx, key, old)
	if old != nil && s.between != nil {
		between := s.between
		s.between = nil
		between()
	}
	return done, err
}

// movingBeside makes a session whose tombstone has a key of its own, and moves it to "new". In the
// middle of the move it calls the given function. It returns the error of the move.
func movingBeside(t *testing.T, ttl time.Duration, between func(s sessionstore.Store)) (sessionstore.Store, *sessiontest.Blobs, error) {
	t.Helper()
	blobs := sessiontest.NewBlobs()
	traits := sessionstore.Traits{NoDeadline: true, CommitsNeedLock: true}
	store := sessionstore.FromBlobs(blobs, sessionstore.Packed(), traits)
	_, err := store.Commit(bg, "k", sessionstore.Change{Create: true, TTL: time.Hour, Ops: []sessionstore.Op{{Kind: sessionstore.OpPut, Key: "a", Value: []byte("1")}}})
	noError(t, err)
	mover := sessionstore.FromBlobs(&stepped{blobs, func() { between(store) }}, sessionstore.Packed(), traits)
	_, err = mover.Commit(bg, "k", sessionstore.Change{Move: sessionstore.Moved{To: sessionstore.KeyOf("new"), At: time.Now()}, TTL: ttl})
	return store, blobs, err
}

// TestDeleteInTheMiddleOfAMove: the rest of the move is refused and does not bring the session
// back. Because of the error, Regenerate deletes the copy under the new id too.
func TestDeleteInTheMiddleOfAMove(t *testing.T) {
	store, blobs, err := movingBeside(t, time.Hour, func(s sessionstore.Store) {
		if moved, err := s.Delete(bg, "k"); err != nil || moved.To.Text() != "" {
			t.Errorf("Delete: %v %v", moved, err)
		}
	})
	if !errors.Is(err, sessionstore.ErrNotFound) {
		t.Errorf("the move: %v", err)
	}
	if r, err := store.Load(bg, "k"); !errors.Is(err, sessionstore.ErrNotFound) {
		t.Errorf("Load: %v %v", r, err)
	}
	if b, err := blobs.Get(bg, "k_MOVED"); err != nil || !strings.Contains(string(b.Data), "k_ENDED") {
		t.Errorf("there is %q left, %v", b.Data, err)
	}
}

// TestOthersInTheMiddleOfAMove: readers, writers and another mover wait for the end of the move,
// and then see where the session went.
func TestOthersInTheMiddleOfAMove(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		results := make(chan error, 3)
		_, _, err := movingBeside(t, time.Hour, func(s sessionstore.Store) {
			go func() {
				r, err := s.Load(bg, "k")
				if err == nil {
					err = &sessionstore.MovedError{Moved: r.Moved}
				}
				results <- err
			}()
			for _, c := range []sessionstore.Change{{TTL: time.Hour}, {TTL: time.Hour, Move: sessionstore.Moved{To: sessionstore.KeyOf("elsewhere"), At: time.Now()}}} {
				go func() { _, err := s.Commit(bg, "k", c); results <- err }()
			}
			<-time.After(100 * time.Millisecond)
		})
		noError(t, err)
		for range cap(results) {
			var moved *sessionstore.MovedError
			if err := <-results; !errors.As(err, &moved) || moved.Moved.To.Text() != "new" {
				t.Errorf("%v", err)
			}
		}
	})
}

// TestMoveWithoutGrace: a tombstone without a grace period still lasts until the move is finished.
func TestMoveWithoutGrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, _, err := movingBeside(t, time.Millisecond, func(sessionstore.Store) { <-time.After(time.Second) })
		noError(t, err)
		<-time.After(time.Second)
		if r, err := store.Load(bg, "k"); !errors.Is(err, sessionstore.ErrNotFound) {
			t.Errorf("Load: %v %v", r, err)
		}
	})
}

// TestClientLeavesInTheMiddleOfAMove: the move is finished even if the client leaves.
func TestClientLeavesInTheMiddleOfAMove(t *testing.T) {
	ctx, cancel := context.WithCancel(bg)
	blobs := &stepped{sessiontest.NewBlobs(), cancel}
	s := sessionstore.FromBlobs(blobs, sessionstore.Packed(), sessionstore.Traits{NoDeadline: true, CommitsNeedLock: true})
	_, err := s.Commit(ctx, "k", sessionstore.Change{Create: true, TTL: time.Hour})
	noError(t, err)
	_, err = s.Commit(ctx, "k", sessionstore.Change{Move: sessionstore.Moved{To: sessionstore.KeyOf("new"), At: time.Now()}, TTL: time.Hour})
	noError(t, err)
	if r, err := s.Load(bg, "k"); err != nil || r.Moved.To.Text() != "new" {
		t.Errorf("Load: %v %v", r, err)
	}
}

// made is a session that another program writes without a look at tombstones.
func made(t *testing.T, blobs *sessiontest.Blobs) {
	t.Helper()
	late := sessionstore.Packed().New(time.Time{})
	noError(t, late.Set("late", []byte("1")))
	data, err := late.Encode()
	noError(t, err)
	blobs.Put("k", data)
}

var moveAgain = sessionstore.Change{Move: sessionstore.Moved{To: sessionstore.KeyOf("third"), At: time.UnixMilli(1)}, TTL: time.Hour}

// TestOldIDMadeAnew: another program makes the old id anew while its tombstone is there. The
// tombstone counts: readers get the session from before the move, writers and movers the new key,
// and Delete leads to the new key and removes what the other program made.
func TestOldIDMadeAnew(t *testing.T) {
	store, blobs, err := movingBeside(t, time.Hour, func(sessionstore.Store) {})
	noError(t, err)
	made(t, blobs)
	if r, err := store.Load(bg, "k"); err != nil || r.Moved.To.Text() != "new" || len(r.Fields) != 1 || r.Fields[0].Key != "a" {
		t.Errorf("Load: %v %v", r, err)
	}
	for _, c := range []sessionstore.Change{{TTL: time.Hour}, moveAgain} {
		var moved *sessionstore.MovedError
		if _, err := store.Commit(bg, "k", c); !errors.As(err, &moved) || moved.Moved.To.Text() != "new" {
			t.Errorf("Commit: %v", err)
		}
	}
	if moved, err := store.Delete(bg, "k"); err != nil || moved.To.Text() != "new" {
		t.Errorf("Delete: %v %v", moved, err)
	}
	if b, err := blobs.Get(bg, "k"); !errors.Is(err, sessionstore.ErrNotFound) {
		t.Errorf("there is %q left, %v", b.Data, err)
	}
}

// TestEndedIDMadeAnew: another program makes the id of an ended session anew. For a minute there is
// no session at that id, so that no request from before writes there. Then the new session counts.
func TestEndedIDMadeAnew(t *testing.T) {
	for name, end := range map[string]func(s sessionstore.Store) error{
		"deleted": func(s sessionstore.Store) error { _, err := s.Delete(bg, "k"); return err },
		"moved without a grace period": func(s sessionstore.Store) error {
			_, err := s.Commit(bg, "k", sessionstore.Change{Move: sessionstore.Moved{To: sessionstore.KeyOf("new"), At: time.Now()}, TTL: time.Millisecond})
			return err
		},
		"moved, then deleted": func(s sessionstore.Store) error {
			_, err := s.Commit(bg, "k", moveAgain)
			_, gone := s.Delete(bg, "k")
			return errors.Join(err, gone)
		},
		"deleted twice": func(s sessionstore.Store) error {
			_, err := s.Delete(bg, "k")
			_, again := s.Delete(bg, "k")
			return errors.Join(err, again)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { endedMadeAnew(t, end) })
		})
	}
}

func endedMadeAnew(t *testing.T, end func(s sessionstore.Store) error) {
	blobs := sessiontest.NewBlobs()
	s := sessionstore.FromBlobs(blobs, sessionstore.Packed(), sessionstore.Traits{NoDeadline: true, CommitsNeedLock: true})
	_, err := s.Commit(bg, "k", sessionstore.Change{Create: true, TTL: time.Hour})
	noError(t, err)
	noError(t, end(s))
	made(t, blobs)
	for _, c := range []sessionstore.Change{{TTL: time.Hour}, moveAgain} {
		if _, err := s.Commit(bg, "k", c); !errors.Is(err, sessionstore.ErrNotFound) {
			t.Errorf("Commit: %v", err)
		}
	}
	if r, err := s.Load(bg, "k"); !errors.Is(err, sessionstore.ErrNotFound) {
		t.Errorf("Load: %v %v", r, err)
	}
	<-time.After(time.Minute)
	if r, err := s.Load(bg, "k"); err != nil || len(r.Fields) != 1 {
		t.Errorf("after a minute Load: %v %v", r, err)
	}
	moved, err := s.Delete(bg, "k")
	if r, gone := s.Load(bg, "k"); err != nil || moved.To.Text() != "" || !errors.Is(gone, sessionstore.ErrNotFound) {
		t.Errorf("Delete: %v %v; Load: %v %v", moved, err, r, gone)
	}
	_, err = s.Commit(bg, "k", sessionstore.Change{Create: true, TTL: time.Hour})
	if r, gone := s.Load(bg, "k"); err != nil || gone != nil {
		t.Errorf("a new session: %v; Load: %v %v", err, r, gone)
	}
}

// TestDeleteLeavesNothing: where there is no session, Delete writes nothing. So a client that makes
// up ids does not fill the store.
func TestDeleteLeavesNothing(t *testing.T) {
	blobs := sessiontest.NewBlobs()
	s := sessionstore.FromBlobs(blobs, sessionstore.Packed(), sessionstore.Traits{NoDeadline: true, CommitsNeedLock: true})
	_, err := s.Delete(bg, "k")
	noError(t, err)
	if b, err := blobs.Get(bg, "k_MOVED"); !errors.Is(err, sessionstore.ErrNotFound) {
		t.Errorf("there is %q, %v", b.Data, err)
	}
}

// TestDeleteInAFullStore: a store that takes no new values deletes a session all the same.
func TestDeleteInAFullStore(t *testing.T) {
	blobs := sessiontest.NewBlobs()
	made(t, blobs)
	s := sessionstore.FromBlobs(&refusing{blobs, false}, sessionstore.Packed(), sessionstore.Traits{NoDeadline: true, CommitsNeedLock: true})
	_, err := s.Delete(bg, "k")
	noError(t, err)
	if r, err := s.Load(bg, "k"); !errors.Is(err, sessionstore.ErrNotFound) {
		t.Errorf("Load: %v %v", r, err)
	}
}

// TestForeignValueBesideASession: what another program keeps at the tombstone's key does not hide
// the session, and stays.
func TestForeignValueBesideASession(t *testing.T) {
	blobs := sessiontest.NewBlobs()
	made(t, blobs)
	blobs.Put("k_MOVED", []byte("foreign"))
	s := sessionstore.FromBlobs(blobs, sessionstore.Packed(), sessionstore.Traits{NoDeadline: true, CommitsNeedLock: true})
	if r, err := s.Load(bg, "k"); err != nil || len(r.Fields) != 1 {
		t.Errorf("Load: %v %v", r, err)
	}
	_, err := s.Commit(bg, "k", sessionstore.Change{TTL: time.Hour})
	noError(t, err)
	if _, err := s.Commit(bg, "k", moveAgain); err == nil {
		t.Error("a move replaced it")
	}
	_, err = s.Delete(bg, "k")
	noError(t, err)
	if b, err := blobs.Get(bg, "k_MOVED"); string(b.Data) != "foreign" {
		t.Errorf("it became %q, %v", b.Data, err)
	}
}

// refusing is a store in which Swap fails at every key except the session's.
type refusing struct {
	*sessiontest.Blobs
	remove bool // Remove fails instead of Swap
}

var errCut = errors.New("connection reset")

func (r *refusing) Swap(ctx context.Context, key string, old *sessionstore.Blob, data []byte, ttl time.Duration) (bool, *sessionstore.Blob, error) {
	if key != "k" && !r.remove {
		return false, nil, errCut
	}
	return r.Blobs.Swap(ctx, key, old, data, ttl)
}

func (r *refusing) Remove(ctx context.Context, key string, old *sessionstore.Blob) (bool, error) {
	if r.remove {
		return false, errCut
	}
	return r.Blobs.Remove(ctx, key, old)
}

// TestWhatIsKnownOfAMove: if a move fails when it writes the claim, the session is unchanged, and
// the error says so (ErrUnavailable). If it fails later, the error does not say so.
func TestWhatIsKnownOfAMove(t *testing.T) {
	for _, remove := range []bool{false, true} {
		s := sessionstore.FromBlobs(&refusing{sessiontest.NewBlobs(), remove}, sessionstore.Packed(), sessionstore.Traits{NoDeadline: true, CommitsNeedLock: true})
		_, err := s.Commit(bg, "k", sessionstore.Change{Create: true, TTL: time.Hour})
		noError(t, err)
		_, err = s.Commit(bg, "k", sessionstore.Change{Move: sessionstore.Moved{To: sessionstore.KeyOf("new"), At: time.Now()}, TTL: time.Hour})
		if !errors.Is(err, errCut) || errors.Is(err, sessionstore.ErrUnavailable) == remove {
			t.Errorf("remove %v: %v", remove, err)
		}
	}
}

// startsAsTombstone is a format that FromBlobs must not use.
type startsAsTombstone struct{ sessionstore.Format }

func (f startsAsTombstone) New(end time.Time) sessionstore.Document {
	return tombstoneDocument{f.Format.New(end)}
}

type tombstoneDocument struct{ sessionstore.Document }

func (tombstoneDocument) Encode() ([]byte, error) {
	return []byte(sessionstore.TombstonePrefix + "x"), nil
}

func TestFormatThatBeginsAsATombstone(t *testing.T) {
	s := sessionstore.FromBlobs(sessiontest.NewBlobs(), startsAsTombstone{sessionstore.Packed()}, sessionstore.Traits{})
	if _, err := s.Commit(bg, "k", sessionstore.Change{Create: true}); !errors.Is(err, sessionstore.ErrRefused) {
		t.Error(err)
	}
}

// mortal is the store of a process that dies in one of its calls, before or after that call takes
// effect. All later calls fail.
type mortal struct {
	*sessiontest.Blobs
	left int  // the number of calls until it dies
	late bool // the last call takes effect
}

func (m *mortal) dead(f func()) error {
	m.left--
	if m.left > 0 || m.left == 0 && m.late {
		f()
	}
	if m.left > 0 {
		return nil
	}
	return context.DeadlineExceeded
}

func (m *mortal) Get(ctx context.Context, key string) (b sessionstore.Blob, err error) {
	if dead := m.dead(func() { b, err = m.Blobs.Get(ctx, key) }); dead != nil {
		return sessionstore.Blob{}, dead
	}
	return b, err
}

func (m *mortal) Swap(ctx context.Context, key string, old *sessionstore.Blob, data []byte, ttl time.Duration) (done bool, now *sessionstore.Blob, err error) {
	if dead := m.dead(func() { done, now, err = m.Blobs.Swap(ctx, key, old, data, ttl) }); dead != nil {
		return false, nil, dead
	}
	return done, now, err
}

func (m *mortal) Remove(ctx context.Context, key string, old *sessionstore.Blob) (done bool, err error) {
	if dead := m.dead(func() { done, err = m.Blobs.Remove(ctx, key, old) }); dead != nil {
		return false, dead
	}
	return done, err
}

// TestMoverDies: a process dies before or after each request of a move. Then the session is as it
// was, or there is a tombstone with the new key; if tombstones have keys of their own, both may be
// missing. What is left can be moved, deleted, and removed by another program.
func TestMoverDies(t *testing.T) {
	changes := map[string]func(t *testing.T, s sessionstore.Store, blobs *sessiontest.Blobs, before sessionstore.Record){
		"moved again": func(t *testing.T, s sessionstore.Store, _ *sessiontest.Blobs, before sessionstore.Record) {
			_, err := s.Commit(bg, "k", sessionstore.Change{Move: sessionstore.Moved{To: sessionstore.KeyOf("second"), At: time.Now()}, TTL: time.Hour})
			if r, _ := s.Load(bg, "k"); before.Version != "" && before.Moved.To.Text() == "" && (err != nil || r.Moved.To.Text() != "second") {
				t.Errorf("a second move: %v, and Load reports %q", err, r.Moved.To.Text())
			}
		},
		"deleted": func(t *testing.T, s sessionstore.Store, _ *sessiontest.Blobs, before sessionstore.Record) {
			if moved, err := s.Delete(bg, "k"); err != nil || moved.To.Text() != before.Moved.To.Text() {
				t.Errorf("Delete: %q, %v, want %q", moved.To.Text(), err, before.Moved.To.Text())
			}
			if r, err := s.Load(bg, "k"); !errors.Is(err, sessionstore.ErrNotFound) {
				t.Errorf("after Delete: %+v, %v", r, err)
			}
		},
		"removed by another program": func(t *testing.T, s sessionstore.Store, blobs *sessiontest.Blobs, before sessionstore.Record) {
			_, err := blobs.Remove(bg, "k", nil)
			noError(t, err)
			if r, err := s.Load(bg, "k"); before.Moved.To.Text() == "" && !errors.Is(err, sessionstore.ErrNotFound) {
				t.Errorf("after Remove: %+v, %v", r, err)
			}
		},
	}
	for _, traits := range []sessionstore.Traits{{}, {NoDeadline: true, CommitsNeedLock: true}} {
		for what, change := range changes {
			for i := range 20 {
				synctest.Test(t, func(t *testing.T) {
					blobs := sessiontest.NewBlobs()
					s := sessionstore.FromBlobs(blobs, sessionstore.Packed(), traits)
					_, err := s.Commit(bg, "k", sessionstore.Change{Create: true, TTL: time.Hour, Ops: []sessionstore.Op{{Kind: sessionstore.OpPut, Key: "a", Value: []byte("1")}}})
					noError(t, err)
					mover := sessionstore.FromBlobs(&mortal{blobs, 1 + i/2, i%2 == 1}, sessionstore.Packed(), traits)
					_, err = mover.Commit(bg, "k", sessionstore.Change{Move: sessionstore.Moved{To: sessionstore.KeyOf("first"), At: time.Now()}, TTL: time.Hour})
					r, bad := s.Load(bg, "k")
					missing := errors.Is(bad, sessionstore.ErrNotFound) && traits.CommitsNeedLock && err != nil
					if !missing && (bad != nil || len(r.Fields) != 1 || err == nil && r.Moved.To.Text() != "first") {
						t.Errorf("%+v, death %d: Load: %+v, %v; the mover: %v", traits, i, r, bad, err)
					}
					change(t, s, blobs, r)
					if t.Failed() {
						t.Fatalf("%+v, death %d, then it was %s", traits, i, what)
					}
				})
			}
		}
	}
}
