package phpsession_test

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/stores/memstore"
	"github.com/padlock-go/padlock/web/session"
	"github.com/padlock-go/padlock/web/session/phpcodec"
	"github.com/padlock-go/padlock/web/session/phpsession"
	"github.com/padlock-go/padlock/web/session/sessionstore"
	"github.com/padlock-go/padlock/web/session/sessiontest"
)

// losing is a lock store. The test can take a lock away from its holder, as DEL of the lock's key
// does.
type losing struct {
	padlock.Store
	mu    sync.Mutex
	name  string // name of the lock that was granted last
	token string
}

func (l *losing) Acquire(ctx context.Context, r driver.Request) (driver.Grant, error) {
	g, err := l.Store.Acquire(ctx, r)
	if err == nil {
		l.mu.Lock()
		l.name, l.token = r.Name, r.Token.Text()
		l.mu.Unlock()
	}
	return g, err
}

func (l *losing) lose(t testing.TB) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, err := l.Store.Release(bg, l.name, l.token, 0); err != nil {
		t.Error(err)
	}
}

// phpBrowser is a visitor of a PHP application that loses its locks.
func phpBrowser(t *testing.T, opts ...session.Option) (*phpSide, *losing, *browser) {
	locks := &losing{Store: memstore.New()}
	locker := padlock.New(locks)
	t.Cleanup(func() { locker.Close(bg) })
	p := &phpSide{sessiontest.NewBlobs(), locker}
	opts = append(opts, session.Cookie{Insecure: true, Name: phpsession.CookieName})
	m, err := phpsession.New(p.blobs, locker, phpsession.Config{}, opts...)
	noError(t, err)
	p.blobs.Put(phpsession.DefaultPrefix+phpID, []byte(`k|i:1;`))
	return p, locks, newBrowser(t, m)
}

func set(t testing.TB, key string) func(d *phpcodec.Document) {
	return func(d *phpcodec.Document) { noError(t, d.Set(key, []byte("i:7;"))) }
}

// TestPHPLostLock: an Exclusive request loses its lock. It takes the lock again before it saves,
// and so it waits for PHP. If PHP has changed the session, that is a conflict.
func TestPHPLostLock(t *testing.T) {
	t.Run("nobody came", func(t *testing.T) {
		_, locks, b := phpBrowser(t, session.Exclusive)
		b.ok(func(s *session.Session) {
			get1[int](t, s, "k")
			locks.lose(t)
			noError(t, s.Put("go", 2))
		})
		has(b, "go", 2)
	})
	t.Run("PHP came and went", func(t *testing.T) {
		php, locks, b := phpBrowser(t, session.Exclusive)
		b.status(http.StatusConflict, func(s *session.Session) {
			get1[int](t, s, "k")
			locks.lose(t)
			php.request(t, set(t, "php"))
			s.Put("go", 2)
		})
		has(b, "php", 7)
		has(b, "go", 0)
	})
	t.Run("PHP is there", func(t *testing.T) {
		php, locks, b := phpBrowser(t, session.Exclusive, session.MaxWait(time.Minute))
		inside, leave := make(chan bool), make(chan bool)
		var wg sync.WaitGroup
		status := b.do(func(s *session.Session) {
			get1[int](t, s, "k")
			locks.lose(t)
			wg.Go(func() { php.request(t, func(d *phpcodec.Document) { close(inside); <-leave; set(t, "php")(d) }) })
			<-inside
			noError(t, s.Put("go", 2))
			time.AfterFunc(20*time.Millisecond, func() { close(leave) })
		})
		wg.Wait()
		if status == http.StatusOK {
			t.Error("answered 200")
		}
		has(b, "php", 7)
	})
	t.Run("logout", func(t *testing.T) {
		php, locks, b := phpBrowser(t, session.Exclusive, session.MaxWait(time.Minute))
		inside := make(chan bool)
		var wg sync.WaitGroup
		b.ok(func(s *session.Session) {
			get1[int](t, s, "k")
			locks.lose(t)
			wg.Go(func() {
				php.request(t, func(d *phpcodec.Document) { close(inside); <-time.After(20 * time.Millisecond); set(t, "php")(d) })
			})
			<-inside
			noError(t, s.Destroy(bg))
		})
		wg.Wait()
		if _, err := php.blobs.Get(bg, phpsession.DefaultPrefix+phpID); !errors.Is(err, sessionstore.ErrNotFound) {
			t.Errorf("PHP wrote the session again after the logout: %v", err)
		}
	})
}

// pausing is a store that pauses after the lock is taken and before a value is written.
type pausing struct {
	sessionstore.BlobStore
	pause func()
}

func (p *pausing) stop() {
	if f := p.pause; f != nil {
		p.pause = nil
		f()
	}
}

func (p *pausing) Swap(ctx context.Context, key string, old *sessionstore.Blob, data []byte, ttl time.Duration) (bool, *sessionstore.Blob, error) {
	p.stop()
	return p.BlobStore.Swap(ctx, key, old, data, ttl)
}

func (p *pausing) Remove(ctx context.Context, key string, old *sessionstore.Blob) (bool, error) {
	p.stop()
	return p.BlobStore.Remove(ctx, key, old)
}

// TestPHPLockLostDuringTheCommit: PHP may overwrite the values of this commit, so the answer is not
// 200.
func TestPHPLockLostDuringTheCommit(t *testing.T) {
	for mode, m := range map[string]session.Mode{"Delta": session.Delta, "Exclusive": session.Exclusive, "LastWriteWins": session.LastWriteWins} {
		for name, write := range map[string]func(s *session.Session) error{
			"put":  func(s *session.Session) error { s.Put("go", 2); return s.Commit(bg) },
			"incr": func(s *session.Session) error { s.Incr(bg, "go", 2); return s.Commit(bg) },
			"update": func(s *session.Session) error {
				return s.Update(bg, func(_ context.Context, tx *session.Session) error { return tx.Put("go", 2) })
			},
			"destroy": func(s *session.Session) error { return s.Destroy(bg) },
		} {
			t.Run(mode+"/"+name, func(t *testing.T) {
				locks := &losing{Store: memstore.New()}
				locker := padlock.New(locks)
				defer locker.Close(bg)
				blobs := &pausing{BlobStore: sessiontest.NewBlobs()}
				m, err := phpsession.New(blobs, locker, phpsession.Config{}, m)
				noError(t, err)
				blobs.BlobStore.(*sessiontest.Blobs).Put(phpsession.DefaultPrefix+phpID, []byte(`k|i:1;`))
				b := newBrowser(t, m)
				b.status(503, func(s *session.Session) {
					get1[int](t, s, "k")
					blobs.pause = func() { locks.lose(t) }
					err := write(s)
					if s.Commit(bg); name != "update" || mode != "Exclusive" { // Update has not released the lock
						if !errors.Is(err, session.ErrUnsaved) {
							t.Errorf("%v", err)
						}
					}
				})
			})
		}
	}
}

// TestPHPLockCannotBeChecked: if the lock cannot be checked, nothing is saved.
func TestPHPLockCannotBeChecked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, locks, b := phpBrowser(t, session.Exclusive)
		b.status(503, func(s *session.Session) {
			get1[int](t, s, "k")
			locks.Store = silent{locks.Store}
			s.Put("go", 2)
			if err := s.Commit(bg); !errors.Is(err, session.ErrUnavailable) || errors.Is(err, session.ErrUnsaved) {
				t.Errorf("%v", err)
			}
		})
		has(b, "go", 0)
	})
}

// silent is a store whose server cannot be reached.
type silent struct{ padlock.Store }

func (silent) Extend(context.Context, string, string, time.Duration) (driver.Grant, error) {
	return driver.Grant{}, driver.ErrUnavailable
}

// TestNoSessionIDInTheLog: the Locker's own log and events shorten the lock's
// name.
func TestNoSessionIDInTheLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var text strings.Builder
		note := func(s string) { mu.Lock(); defer mu.Unlock(); text.WriteString(s + "\n") }
		locks := &losing{Store: memstore.New()}
		locker := padlock.New(locks, padlock.TTL(time.Second),
			padlock.Logger(slog.New(slog.NewTextHandler(writerFunc(note), nil))),
			padlock.Observe(padlock.ObserverFunc(func(_ context.Context, e padlock.Event) { note(e.Name); note(errorText(e.Err)) })))
		blobs := sessiontest.NewBlobs()
		m, err := phpsession.New(blobs, locker, phpsession.Config{}, session.MaxWait(0))
		noError(t, err)
		blobs.Put(phpsession.DefaultPrefix+phpID, []byte(`k|i:1;`))
		b := newBrowser(t, m)
		b.do(func(s *session.Session) {
			get1[int](t, s, "k")
			b.twin().status(503, func(s *session.Session) { session.Get[int](s, "k") }, session.Exclusive)
			locks.lose(t)
			<-time.After(2 * time.Second) // the renewal finds that the lock is lost
			synctest.Wait()
		}, session.Exclusive)
		locker.Close(bg)
		mu.Lock()
		defer mu.Unlock()
		if got := text.String(); strings.Contains(got, phpID) || !strings.Contains(got, "padlock: lost") || !strings.Contains(got, phpsession.DefaultPrefix+phpID[:6]+"…_LOCK") {
			t.Errorf("%s", got)
		}
	})
}

type writerFunc func(string)

func (f writerFunc) Write(p []byte) (int, error) { f(string(p)); return len(p), nil }

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
