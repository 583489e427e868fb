package peers

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	theirlock "github.com/bsm/redislock"
	theirs "github.com/go-redsync/redsync/v4"
	theirpool "github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/padlock-go/padlock/compat/redislock"
	"github.com/padlock-go/padlock/compat/redsync"
	ourpool "github.com/padlock-go/padlock/compat/redsync/redis/goredis/v9"
	"github.com/padlock-go/padlock/internal/safety"
	"github.com/padlock-go/padlock/internal/server"
	"github.com/redis/go-redis/v9"
)

// A program with redsync and one with compat/redsync exclude each other, on one server and on three, and
// each gets the lock that the other has released.
func TestCompatExcludesRedsync(t *testing.T) {
	t.Parallel()
	var pools []*redis.Client
	for range 3 {
		c := redis.NewClient(&redis.Options{Addr: server.Redis(t, server.RedisOptions{}).Addr()})
		t.Cleanup(func() { c.Close() })
		pools = append(pools, c)
	}
	one, two, three := pools[0], pools[1], pools[2]
	for name, rs := range map[string]struct {
		old  *theirs.Redsync
		next *redsync.Redsync
	}{
		"one": {theirs.New(theirpool.NewPool(one)), redsync.New(ourpool.NewPool(one))},
		"three": {
			theirs.New(theirpool.NewPool(one), theirpool.NewPool(two), theirpool.NewPool(three)),
			redsync.New(ourpool.NewPool(one), ourpool.NewPool(two), ourpool.NewPool(three)),
		},
	} {
		for round := range 5 {
			old, next := rs.old.NewMutex(name, theirs.WithTries(100)), rs.next.NewMutex(name, redsync.WithTries(100))
			if err := old.Lock(); err != nil {
				t.Fatalf("%s, round %d: redsync: %v", name, round, err)
			}
			var taken *redsync.ErrTaken
			if err := next.TryLock(); !errors.As(err, &taken) {
				safety.TwoHold(t, "%s: beside redsync: %v", name, err)
			}
			got := make(chan error)
			go func() { got <- next.Lock() }()
			if ok, err := old.Unlock(); !ok {
				t.Errorf("%s: redsync: unlock: %v", name, err)
			}
			if err := <-got; err != nil {
				t.Fatalf("%s, round %d: after redsync: %v", name, round, err)
			}
			var takenToo *theirs.ErrTaken
			if err := old.TryLock(); !errors.As(err, &takenToo) {
				safety.TwoHold(t, "%s: redsync beside it: %v", name, err)
			}
			go func() { got <- old.Lock() }()
			if ok, err := next.Unlock(); !ok {
				t.Errorf("%s: unlock: %v", name, err)
			}
			if err := <-got; err != nil {
				t.Fatalf("%s, round %d: redsync after it: %v", name, round, err)
			}
			old.Unlock()
		}
	}
}

// The same for redislock.
func TestCompatExcludesRedislock(t *testing.T) {
	t.Parallel()
	rc := redis.NewClient(&redis.Options{Addr: server.Redis(t, server.RedisOptions{}).Addr()})
	t.Cleanup(func() { rc.Close() })
	ctx := t.Context()
	for range 5 {
		old, err := theirlock.Obtain(ctx, rc, "job", time.Minute, nil)
		if err != nil {
			t.Fatal("redislock:", err)
		}
		if _, err := redislock.Obtain(ctx, rc, "job", time.Minute, nil); err != redislock.ErrNotObtained {
			safety.TwoHold(t, "beside redislock: %v", err)
		}
		if err := old.Release(ctx); err != nil {
			t.Error(err)
		}
		next, err := redislock.Obtain(ctx, rc, "job", time.Minute, &redislock.Options{RetryStrategy: redislock.LinearBackoff(time.Second)})
		if err != nil {
			t.Fatal("after redislock:", err)
		}
		if _, err := theirlock.Obtain(ctx, rc, "job", time.Minute, nil); err != theirlock.ErrNotObtained {
			safety.TwoHold(t, "redislock beside it: %v", err)
		}
		if err := next.Release(ctx); err != nil {
			t.Error(err)
		}
	}
}

// theirTests are tests of the two libraries that fail on the packages which replace them, with the
// reason. Every other one passes.
var theirTests = map[string]string{
	"TestClient":               "TTL is what can be used, which is 1 % less",
	"TestObtain_custom_token":  "locks with one token and different metadata exclude each other",
	"TestObtain_retry_success": "a lease is 100 ms or longer",
	"TestObtain_retry_failure": "a lease is 100 ms or longer",
	"TestLock_Refresh":         "an extension never makes a lease shorter",
	"TestLock_Refresh_expired": "a lease is 100 ms or longer",
	"TestLock_Release_expired": "a lease is 100 ms or longer",
}

// TestTheirTests runs redsync's and redislock's own tests on compat/redsync and compat/redislock, as the
// scripts in testdata change them.
func TestTheirTests(t *testing.T) {
	t.Parallel()
	server.Thorough(t)
	for pkg, c := range map[string]struct {
		module, file string
		servers      int
	}{
		"redsync":   {"github.com/go-redsync/redsync/v4", "mutex_test.go", 8},
		"redislock": {"github.com/bsm/redislock", "redislock_test.go", 1},
	} {
		t.Run(pkg, func(t *testing.T) {
			t.Parallel()
			dir := strings.TrimSpace(output(t, "go", "list", "-m", "-f", "{{.Dir}}", c.module))
			ours := strings.TrimSpace(output(t, "go", "list", "-f", "{{.Dir}}", "github.com/padlock-go/padlock/compat/"+pkg))
			overlay := map[string]string{filepath.Join(ours, pkg+"_test.go"): ""} // our own test is not there
			put := func(name string, text []byte) {
				file := filepath.Join(t.TempDir(), name)
				if err := os.WriteFile(file, text, 0o600); err != nil {
					t.Fatal(err)
				}
				overlay[filepath.Join(ours, "their_"+name)] = file
			}
			put("tests_test.go", []byte(output(t, "sed", "-f", "testdata/"+pkg+".sed", filepath.Join(dir, c.file))))
			if helpers, err := os.ReadFile("testdata/" + pkg + "_helpers.txt"); err == nil {
				put("helpers_test.go", helpers)
			}
			text, err := json.Marshal(map[string]any{"Replace": overlay})
			if err != nil {
				t.Fatal(err)
			}
			file := filepath.Join(t.TempDir(), "overlay.json")
			if err := os.WriteFile(file, text, 0o600); err != nil {
				t.Fatal(err)
			}
			var addrs []string
			for range c.servers {
				addrs = append(addrs, server.Redis(t, server.RedisOptions{}).Addr())
			}
			cmd := exec.Command("go", "test", "-count=1", "-vet=off", "-v", "-overlay", file, "github.com/padlock-go/padlock/compat/"+pkg)
			cmd.Env = append(os.Environ(), "REDIS_SERVERS="+strings.Join(addrs, ","))
			out, _ := cmd.CombinedOutput() // some fail
			judge(t, out)
		})
	}
}

// judge compares the results of their tests with theirTests.
func judge(t *testing.T, out []byte) {
	t.Helper()
	results := regexp.MustCompile(`(?m)^--- (PASS|FAIL): (\w+)`).FindAllSubmatch(out, -1)
	passed := 0
	for _, r := range results {
		failed, name := bytes.Equal(r[1], []byte("FAIL")), string(r[2])
		if !failed {
			passed++
		}
		if reason, known := theirTests[name]; failed != known {
			t.Errorf("%s: failed %v, expected %v (%s)", name, failed, known, reason)
		}
	}
	t.Logf("%d of %d pass", passed, len(results))
	if len(results) < 10 || t.Failed() {
		t.Errorf("%d tests ran:\n%s", len(results), out)
	}
}

func output(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := exec.Command(name, args...).Output()
	if err != nil {
		t.Fatalf("%s %v: %v", name, args, err)
	}
	return string(out)
}
