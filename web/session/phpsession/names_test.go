package phpsession_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/padlock-go/padlock/web/session"
	"github.com/padlock-go/padlock/web/session/phpcodec"
	"github.com/padlock-go/padlock/web/session/phpsession"
	"github.com/padlock-go/padlock/web/session/sessionstore"
	"github.com/padlock-go/padlock/web/session/sessiontest"
)

// TestConfig: Config sets the prefix, the name of the lock and the format, an option the cookie.
func TestConfig(t *testing.T) {
	blobs, locker := sessiontest.NewBlobs(), newLocker(t)
	blobs.Put("shop:"+phpID, []byte(`a:1:{s:1:"k";i:7;}`))
	m, err := phpsession.New(blobs, locker, phpsession.Config{Handler: phpcodec.PHPSerialize, Prefix: "shop:", LockSuffix: ".lock"},
		session.Exclusive, session.MaxWait(0), session.Cookie{Name: "SHOP", Insecure: true})
	noError(t, err)
	b := newBrowser(t, m)
	b.cookie = &http.Cookie{Name: "SHOP", Value: phpID}
	has(b, "k", 7)
	noError(t, locker.Do(bg, "shop:"+phpID+".lock", func(context.Context) error {
		b.twin().status(503, func(s *session.Session) {
			if _, err := session.Get[int](s, "k"); !errors.Is(err, session.ErrBusy) {
				t.Errorf("while the lock is held: %v", err)
			}
		})
		return nil
	}))
}

// asked notes the keys for which the store is asked.
type asked struct {
	*sessiontest.Blobs
	keys []string
}

func (a *asked) Get(ctx context.Context, key string) (sessionstore.Blob, error) {
	a.keys = append(a.keys, key)
	return a.Blobs.Get(ctx, key)
}

// TestIDs: PHP's ids have 22 to 256 letters. Redis is not asked for anything else that a client
// sends.
func TestIDs(t *testing.T) {
	for id, valid := range map[string]bool{
		"": false, strings.Repeat("a", 21): false, strings.Repeat("a", 22): true, strings.Repeat("Z", 256): true,
		strings.Repeat("a", 257): false, strings.Repeat(",-", 20): true, strings.Repeat("a", 30) + "_MOVED": false,
		strings.Repeat("../", 10): false, strings.Repeat("a", 30) + "\r\n": false, strings.Repeat("é", 30): false,
	} {
		blobs := &asked{Blobs: sessiontest.NewBlobs()}
		m, err := phpsession.New(blobs, newLocker(t), phpsession.Config{})
		noError(t, err)
		if _, err := session.Get[int](m.Load(bg, id), "k"); err != nil || (blobs.keys != nil) != valid {
			t.Errorf("%.40q: asked for %.100q, %v", id, blobs.keys, err)
		}
	}
}

// TestRefusedSettings: what PHP's sessions cannot keep is an error of New.
func TestRefusedSettings(t *testing.T) {
	blobs, locker := sessiontest.NewBlobs(), newLocker(t)
	for what, err := range map[string]error{
		"no store":    second(phpsession.New(nil, locker, phpsession.Config{})),
		"no Locker":   second(phpsession.New(blobs, nil, phpsession.Config{}, session.Exclusive)),
		"a Lifetime":  second(phpsession.New(blobs, locker, phpsession.Config{}, session.Lifetime(session.DefaultLifetime))),
		"Persist":     second(phpsession.New(blobs, locker, phpsession.Config{}, session.Cookie{Persist: true})),
		"no idle end": second(phpsession.New(blobs, locker, phpsession.Config{}, session.IdleTimeout(0))),
	} {
		if err == nil {
			t.Errorf("%s: no error", what)
		}
	}
}

func second(_ *session.Manager, err error) error { return err }
