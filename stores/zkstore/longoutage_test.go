package zkstore_test

import (
	"errors"
	"testing"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/safety"
	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/stores/zkstore"
)

// The servers are away for longer than the session, and keep their data. After the restart the node
// of the old session is still there for a while. Its holder does not take it for its own, and the
// next holder gets the name when the servers have removed the node.
func TestServersAwayForLongerThanASession(t *testing.T) {
	server.Thorough(t)
	t.Parallel()
	srv := server.ZooKeeper(t, server.ZooKeeperOptions{Tick: quick})
	a := mustOpen(t, srv.Addr(), zkstore.SessionTimeout(short))
	b := mustOpen(t, srv.Addr())
	r := request("job")
	g := take(t, a, r)
	srv.Kill()
	<-g.Bound.Done()
	srv.Restart(true)
	if _, err := a.Extend(t.Context(), "job", r.Token.Text(), 0); !errors.Is(err, driver.ErrLost) {
		t.Errorf("the holder of the old session: %v, want ErrLost", err)
	}
	var next driver.Grant
	waitUntil(t, "the next grant", func() (ok bool) {
		if _, err := a.Extend(t.Context(), "job", r.Token.Text(), 0); !errors.Is(err, driver.ErrLost) {
			safety.Broken(t, "the holder of the old session: %v, want ErrLost", err)
		}
		var err error
		next, err = b.Acquire(t.Context(), request("job"))
		return err == nil
	})
	safety.Rises(t, next.Fence, g.Fence)
}
