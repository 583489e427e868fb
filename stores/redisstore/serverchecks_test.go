package redisstore

import (
	"errors"
	"testing"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/server"
)

// granted opens a store that remembers its servers, and acquires a name.
func granted(t *testing.T, srv *server.Server) (*Store, driver.Request, driver.Grant) {
	t.Helper()
	s, err := Open(t.Context(), Config{Addrs: []string{srv.Addr()}}, MaxTTL(time.Hour), RememberRunIDs(RunIDDir(t.TempDir())))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	r := driver.Request{Name: "job", Token: driver.TokenOf("token"), TTL: 50 * time.Second}
	g, err := s.Acquire(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	return s, r, g
}

// TestGrantOverANewConnection: a grant over a connection that was made after the check counts only
// if a new check allows it.
func TestGrantOverANewConnection(t *testing.T) {
	t.Parallel()
	srv := server.Redis(t, server.RedisOptions{})
	s, r, g := granted(t, srv)
	s.checks.countTurn()
	if again, err := s.confirmed(t.Context(), &r, g, nil); err != nil || again != g {
		t.Errorf("a grant of the server that was known: %+v, %v", again, err)
	}
	if !s.checks.valid.Load() {
		t.Error("the checks stay invalid after a look")
	}
	srv.Restart(false)
	s.checks.countTurn()
	if _, err := s.confirmed(t.Context(), &r, g, nil); !errors.Is(err, driver.ErrUncertain) || !errors.Is(err, driver.ErrUnavailable) {
		t.Errorf("a grant of a server that has restarted: %v", err)
	}
}

// TestGrantThatIsNotConfirmed: a grant that the new check does not allow is not released in the
// background. The caller repeats the request with the same token, and the release could end the
// hold of the repeated request.
func TestGrantThatIsNotConfirmed(t *testing.T) {
	t.Parallel()
	srv := server.Redis(t, server.RedisOptions{Args: []string{"--appendonly", "yes"}})
	s, r, g := granted(t, srv)
	srv.Restart(true)
	s.checks.countTurn()
	if _, err := s.confirmed(t.Context(), &r, g, nil); !errors.Is(err, driver.ErrUncertain) {
		t.Fatalf("a grant of a server that has restarted: %v", err)
	}
	if err := s.Close(); err != nil { // Close waits for clean-ups
		t.Fatal(err)
	}
	look, err := Open(t.Context(), Config{Addrs: []string{srv.Addr()}}, RestartGuard(GuardOff))
	if err != nil {
		t.Fatal(err)
	}
	defer look.Close()
	if st, err := look.Inspect(t.Context(), "job"); err != nil || len(st.Holds) != 1 {
		t.Errorf("the hold is gone: %+v, %v", st, err)
	}
}
