package peers

import (
	"errors"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/compat/redislock"
	"github.com/padlock-go/padlock/compat/redsync"
	ourpool "github.com/padlock-go/padlock/compat/redsync/redis/goredis/v9"
	"github.com/padlock-go/padlock/internal/safety"
	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/stores/redisstore"
	"github.com/redis/go-redis/v9"
)

// TestMiniredis is what docs/test-your-code.md says of miniredis.
func TestMiniredis(t *testing.T) {
	t.Parallel()
	m := miniredis.RunT(t)
	store, err := redisstore.Open(t.Context(), redisstore.Config{Addrs: []string{m.Addr()}},
		redisstore.AllowEviction(), redisstore.RestartGuard(redisstore.GuardOff))
	if err != nil {
		t.Fatal(err)
	}
	l := padlock.New(store)
	defer l.Close(t.Context())
	first, err := l.Acquire(t.Context(), "job")
	if err != nil {
		t.Fatal(err)
	}
	next := make(chan *padlock.Lock)
	go func() {
		lock, err := l.Acquire(t.Context(), "job")
		if err != nil {
			t.Error(err)
		}
		next <- lock
	}()
	server.Eventually(t, func() error {
		if st, err := l.Inspect(t.Context(), "job"); err != nil || st.Waiters > 0 {
			return err
		}
		return errors.New("nobody waits")
	})
	if err := first.Release(); err != nil {
		t.Error(err)
	}
	second := <-next
	safety.Rises(t, second.Fence(), first.Fence())
	if err := second.Release(); err != nil {
		t.Error(err)
	}

	rc := redis.NewClient(&redis.Options{Addr: m.Addr()})
	defer rc.Close()
	rs := redsync.New(ourpool.NewPool(rc))
	if err := rs.NewMutex("old", redsync.WithExpiry(time.Second)).Lock(); err != nil {
		t.Fatal(err)
	}
	if _, err := redislock.Obtain(t.Context(), rc, "old", time.Second, nil); err != redislock.ErrNotObtained {
		safety.TwoHold(t, "%v", err)
	}
	m.FastForward(2 * time.Second)
	if _, err := redislock.Obtain(t.Context(), rc, "old", time.Second, nil); err != nil {
		t.Error("after its lease:", err)
	}
}
