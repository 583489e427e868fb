package phpsession_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/stores/memstore"
	"github.com/padlock-go/padlock/web/session"
	"github.com/padlock-go/padlock/web/session/phpsession"
	"github.com/padlock-go/padlock/web/session/sessiontest"
)

// TestUserOfAPHPSession: PHP keeps a session alive, and gives it a new id, without the index of
// users. So each request of Go notes the session anew, even if it only reads.
func TestUserOfAPHPSession(t *testing.T) {
	for name, life := range map[string]time.Duration{"idle time": 0, "remembered": 24 * time.Hour} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { userOfAPHPSession(t, life) })
		})
	}
}

func userOfAPHPSession(t *testing.T, life time.Duration) {
	locker := padlock.New(memstore.New())
	defer locker.Close(bg)
	blobs := sessiontest.NewBlobs()
	m, err := phpsession.New(blobs, locker, phpsession.Config{})
	noError(t, err)
	b := &browser{t: t, m: m}
	b.ok(func(s *session.Session) { noError(t, s.SetUser("ann")); noError(t, s.Remember(life)) })
	for i := range 3 {
		<-time.After(phpsession.IdleTimeout - time.Minute)
		old := phpsession.DefaultPrefix + b.cookie.Value
		blob, err := blobs.Get(bg, old)
		noError(t, err)
		b.cookie.Value = strings.Repeat(fmt.Sprint(i), 32) // PHP gives it a new id
		_, _, err = blobs.Swap(bg, phpsession.DefaultPrefix+b.cookie.Value, nil, blob.Data, phpsession.IdleTimeout)
		noError(t, err)
		_, err = blobs.Remove(bg, old, nil)
		noError(t, err)
		b.ok(func(s *session.Session) { get1[string](t, s, "k") }, session.ReadOnly)
	}
	<-time.After(phpsession.IdleTimeout - time.Minute)
	if n, err := m.EndUserSessions(bg, "ann"); n != 1 || err != nil {
		t.Errorf("%d sessions ended, %v", n, err)
	}
}
