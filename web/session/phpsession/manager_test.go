package phpsession_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/web/session"
	"github.com/padlock-go/padlock/web/session/phpcodec"
	"github.com/padlock-go/padlock/web/session/phpsession"
	"github.com/padlock-go/padlock/web/session/sessionstore"
	"github.com/padlock-go/padlock/web/session/sessiontest"
	"github.com/padlock-go/padlock/web/session/sessiontest/load"
)

// phpSide is a PHP application on the same sessions: it locks, reads, works
// and writes the whole session without a condition.
type phpSide struct {
	blobs  *sessiontest.Blobs
	locker *padlock.Locker
}

func (p *phpSide) request(t testing.TB, edit func(d *phpcodec.Document)) {
	const key = phpsession.DefaultPrefix + phpID
	err := p.locker.Do(bg, key+phpsession.DefaultLockSuffix, func(ctx context.Context) error {
		blob, err := p.blobs.Get(ctx, key)
		if err != nil {
			return err
		}
		d, err := phpcodec.Parse(phpcodec.PHP, blob.Data)
		if err != nil {
			return err
		}
		edit(d)
		data, err := d.Encode()
		p.blobs.Put(key, data)
		return err
	})
	noError(t, err)
}

func newPHP(t testing.TB, opts ...session.Option) (*phpSide, *session.Manager) {
	p := &phpSide{sessiontest.NewBlobs(), newLocker(t)}
	opts = append(opts, session.Cookie{Insecure: true, Name: phpsession.CookieName}, session.MaxWait(time.Minute))
	m, err := phpsession.New(p.blobs, p.locker, phpsession.Config{}, opts...)
	noError(t, err)
	p.blobs.Put(phpsession.DefaultPrefix+phpID, []byte(`started|i:1;user|O:4:"User":1:{s:2:"id";i:42;}f|d:0.10000000000000001;`))
	return p, m
}

const crowd = 100

// TestPHPBeside: PHP serves half of the requests.
func TestPHPBeside(t *testing.T) {
	t.Parallel()
	for name, mode := range map[string]session.Mode{"Delta": session.Delta, "Exclusive": session.Exclusive, "LastWriteWins": session.LastWriteWins} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			php, m := newPHP(t)
			srv := httptest.NewServer(load.Handler(m, mode))
			defer srv.Close()
			c := load.NewClient(srv.URL, crowd)
			defer c.Close()
			c.Cookie = &http.Cookie{Name: phpsession.CookieName, Value: phpID}
			var wg sync.WaitGroup
			for i := range crowd / 2 {
				wg.Go(func() {
					php.request(t, func(d *phpcodec.Document) {
						<-time.After(time.Millisecond)
						noError(t, d.Set(fmt.Sprintf("k%d", crowd/2+i), []byte("i:1;")))
					})
				})
			}
			r := c.Run(t.Context(), load.Set(crowd/2, 10*time.Millisecond, 0))
			wg.Wait()
			if len(r.Statuses) != 1 || r.Statuses[http.StatusOK] != crowd/2 {
				t.Errorf("the statuses are %v", r.Statuses)
			}
			if n, err := c.Kept(t.Context(), crowd); n != crowd || err != nil {
				t.Errorf("%d of %d kept, %v", n, crowd, err)
			}
			blob, _ := php.blobs.Get(bg, phpsession.DefaultPrefix+phpID)
			if !strings.HasPrefix(string(blob.Data), `started|i:1;user|O:4:"User":1:{s:2:"id";i:42;}f|d:0.10000000000000001;`) {
				t.Errorf("what nobody touched was changed: %.100q", blob.Data)
			}
		})
	}
}

func TestPHPValues(t *testing.T) {
	php, m := newPHP(t)
	b := newBrowser(t, m)
	b.ok(func(s *session.Session) {
		if u := get1[phpcodec.Object](t, s, "user"); u.Class != "User" {
			t.Errorf("%+v", u)
		}
		if n, err := s.Incr(bg, "started", 2); n != 3 || err != nil {
			t.Error(n, err)
		}
		noError(t, s.Put("cart", []string{"x"}))
		for _, key := range []string{"a|b", "5"} {
			if err := s.Put(key, 1); !errors.Is(err, session.ErrKey) {
				t.Errorf("%q: %v", key, err)
			}
		}
		s.IgnoreRefused()
		if _, err := s.Incr(bg, "f", 1); !errors.Is(err, session.ErrNotNumber) {
			t.Error(err)
		}
	})
	blob, _ := php.blobs.Get(bg, phpsession.DefaultPrefix+phpID)
	if got := string(blob.Data); got != `started|i:3;user|O:4:"User":1:{s:2:"id";i:42;}f|d:0.10000000000000001;cart|a:1:{i:0;s:1:"x";}` {
		t.Errorf("%q", got)
	}
	if blob.TTL <= 0 || blob.TTL > phpsession.IdleTimeout {
		t.Errorf("lives for %v", blob.TTL)
	}
	// If PHP writes the same float again with other digits, that is not a conflict.
	b.ok(func(s *session.Session) {
		get1[float64](t, s, "f")
		php.request(t, func(d *phpcodec.Document) { noError(t, d.Set("f", []byte("d:0.1;"))) })
		noError(t, s.Put("f", 0.5))
	})
	b.status(409, func(s *session.Session) {
		get1[float64](t, s, "f")
		php.request(t, func(d *phpcodec.Document) { noError(t, d.Set("f", []byte("d:0.2;"))) })
		noError(t, s.Put("f", 0.7))
	})
}

// TestPHPNewSession looks at what a new visitor gets: PHP's cookie, an id that
// PHP accepts, and data that it reads.
func TestPHPNewSession(t *testing.T) {
	php, m := newPHP(t)
	b := &browser{t: t, m: m}
	b.ok(func(s *session.Session) { noError(t, s.Put("k", "v")) })
	id := b.cookie.Value
	if b.cookie.Name != "PHPSESSID" || len(id) != 64 || strings.Trim(id, "0123456789abcdef") != "" {
		t.Errorf("%v", b.cookie)
	}
	if blob, err := php.blobs.Get(bg, "PHPREDIS_SESSION:"+id); err != nil || string(blob.Data) != `k|s:1:"v";` {
		t.Errorf("%q %v", blob.Data, err)
	}
	b.cookie.Value = strings.Repeat("../", 10)
	has(b, "k", "")
	b.cookie.Value = strings.Repeat("0", 32) // an unknown id is not adopted
	b.ok(func(s *session.Session) { noError(t, s.Put("k", 1)) })
	if b.cookie.Value == strings.Repeat("0", 32) {
		t.Error("the client chose its id")
	}
}

// TestPHPDestroyWaits: PHP would write the session again after it was destroyed, so Destroy waits
// for PHP's lock.
func TestPHPDestroyWaits(t *testing.T) {
	php, m := newPHP(t)
	b := newBrowser(t, m)
	var wg sync.WaitGroup
	php.request(t, func(*phpcodec.Document) {
		wg.Go(func() { b.twin().ok(func(s *session.Session) { noError(t, s.Destroy(bg)) }) })
		<-time.After(30 * time.Millisecond)
	})
	wg.Wait()
	if _, err := php.blobs.Get(bg, phpsession.DefaultPrefix+phpID); !errors.Is(err, sessionstore.ErrNotFound) {
		t.Errorf("the session is back: %v", err)
	}
}

func TestPHPDamagedSession(t *testing.T) {
	php, m := newPHP(t)
	b := newBrowser(t, m)
	for _, bad := range []string{"k|a:99999999:{", "\x00\x00\x00\x02\x14", "k|i:1;k|i:2;"} {
		php.blobs.Put(phpsession.DefaultPrefix+phpID, []byte(bad))
		b.status(503, func(s *session.Session) {
			if _, err := session.Get[int](s, "k"); !errors.Is(err, session.ErrRefused) {
				t.Errorf("%v", err)
			}
		})
		if blob, _ := php.blobs.Get(bg, phpsession.DefaultPrefix+phpID); string(blob.Data) != bad {
			t.Errorf("it became %q", blob.Data)
		}
		out := b.twin()
		out.ok(func(s *session.Session) { noError(t, s.Destroy(bg)) })
		if _, err := php.blobs.Get(bg, phpsession.DefaultPrefix+phpID); out.cookie != nil || !errors.Is(err, sessionstore.ErrNotFound) {
			t.Errorf("after Destroy: cookie %v, %v", out.cookie, err)
		}
		_, err := php.blobs.Remove(bg, phpsession.DefaultPrefix+phpID+"_MOVED", nil) // as after a minute
		noError(t, err)
	}
	php.blobs.Put(phpsession.DefaultPrefix+phpID, []byte("a|i:1;b|R:1;c|i:3;"))
	b.status(503, func(s *session.Session) { s.Put("a", 2) })
	b.ok(func(s *session.Session) { noError(t, s.Put("c", 4)); noError(t, s.Put("d", 5)) })
	if blob, _ := php.blobs.Get(bg, phpsession.DefaultPrefix+phpID); string(blob.Data) != "a|i:1;b|R:1;c|i:4;d|i:5;" {
		t.Errorf("%q", blob.Data)
	}
}

// phpredis can compress sessions. Short data that lzf has compressed are the data with a length
// before them, which looks like a part of the first key.
func TestCompressedByPHP(t *testing.T) {
	php, m := newPHP(t)
	for name, data := range map[string]string{
		"lzf": "\x05k|i:1;", "zstd": "\x28\xb5\x2f\xfd\x20\x06\x31\x00\x00k|i:1;", "lz4": "\xd4\x06\x00\x00\x00\x60k|i:1;",
	} {
		php.blobs.Put(phpsession.DefaultPrefix+phpID, []byte(data))
		if code := newBrowser(t, m).do(func(s *session.Session) { s.Put("other", 1) }); code != 503 {
			t.Errorf("%s: status %d", name, code)
		}
		if blob, _ := php.blobs.Get(bg, phpsession.DefaultPrefix+phpID); string(blob.Data) != data {
			t.Errorf("%s: it became %q", name, blob.Data)
		}
	}
}

// TestPutOfAReference: a write that a session with references does not allow fails at Put, and the
// other writes of the request can be saved.
func TestPutOfAReference(t *testing.T) {
	t.Parallel()
	php, m := newPHP(t)
	php.blobs.Put(phpsession.DefaultPrefix+phpID, []byte("a|i:1;b|R:1;n|i:0;"))
	b := newBrowser(t, m)
	b.ok(func(s *session.Session) {
		for _, key := range []string{"a", "b"} {
			if err := s.Put(key, 2); !errors.Is(err, session.ErrRefused) {
				t.Errorf("Put of %q: %v", key, err)
			}
		}
		if err := s.Delete("a"); !errors.Is(err, session.ErrRefused) {
			t.Errorf("Delete: %v", err)
		}
		s.IgnoreRefused()
		noError(t, s.Put("n", 1))
		noError(t, s.Put("new", 1))
	})
	if blob, _ := php.blobs.Get(bg, phpsession.DefaultPrefix+phpID); string(blob.Data) != "a|i:1;b|R:1;n|i:1;new|i:1;" {
		t.Errorf("%q", blob.Data)
	}
}

// TestEndUserSessionsOfPHP: "log out everywhere" works on sessions that PHP shares, and waits for
// PHP's lock. Another application in the same store keeps its sessions.
func TestEndUserSessionsOfPHP(t *testing.T) {
	t.Parallel()
	php, m := newPHP(t)
	login := func(s *session.Session) { noError(t, s.Regenerate(bg)); noError(t, s.SetUser("ann")) }
	b := newBrowser(t, m)
	b.ok(login)
	foreign, err := phpsession.New(php.blobs, php.locker, phpsession.Config{Prefix: "OTHER:"}, session.Cookie{Insecure: true})
	noError(t, err)
	other := &browser{t: t, m: foreign}
	other.ok(login)
	if all, err := m.UserSessions(bg, "ann"); len(all) != 1 || err != nil {
		t.Errorf("%d sessions, %v", len(all), err)
	}
	if n, err := m.EndUserSessions(bg, "ann"); n != 1 || err != nil {
		t.Errorf("%d sessions ended, %v", n, err)
	}
	for _, c := range []struct {
		b    *browser
		want string
	}{{b, ""}, {other, "ann"}} {
		c.b.do(func(s *session.Session) {
			if user, err := s.User(); user != c.want || err != nil {
				t.Errorf("the user is %q, %v, want %q", user, err, c.want)
			}
		})
	}
}

// TestEncodedID: with session.sid_bits_per_character = 6, ids have commas. PHP encodes them in the
// cookie, and Go reads and writes them so.
func TestEncodedID(t *testing.T) {
	php, m := newPHP(t)
	const id, encoded = "0123456789abcdef,0123456789-ABC,", "0123456789abcdef%2C0123456789-ABC%2C"
	php.blobs.Put(phpsession.DefaultPrefix+id, []byte("k|i:1;"))
	for _, sent := range []string{encoded, id, strings.ReplaceAll(encoded, "%2C", "%2c")} {
		b := &browser{t: t, m: m, cookie: &http.Cookie{Name: phpsession.CookieName, Value: sent}}
		has(b, "k", 1)
		if b.cookie.Value != sent {
			t.Errorf("%s: the answer sets %v", sent, b.cookie)
		}
		b.ok(func(s *session.Session) { noError(t, s.Remember(time.Hour)) })
		if b.cookie.Value != encoded {
			t.Errorf("%s: the answer sets %v, want %s", sent, b.cookie, encoded)
		}
	}
}
