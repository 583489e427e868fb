package command

import (
	"context"
	"fmt"
	"os/exec"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/observe/sampler"
)

// redisSampler returns a Sampler of a new Redis, its Locker, and a function that runs redis-cli.
func redisSampler(t *testing.T, parameters string) (*sampler.Sampler, *padlock.Locker, func(args ...string) string) {
	srv := server.Redis(t, server.RedisOptions{})
	store, err := whole().openStore(t.Context(), srv.URL()+"?prefix=t:"+parameters)
	if err != nil {
		t.Fatal(err)
	}
	l := padlock.New(store)
	t.Cleanup(func() { l.Close(context.Background()) })
	cli := func(args ...string) string {
		out, err := exec.Command("redis-cli", append([]string{"-u", srv.URL()}, args...)...).CombinedOutput()
		if err != nil {
			t.Fatalf("redis-cli %v: %v, %s", args, err, out)
		}
		return string(out)
	}
	return sampler.New(l), l, cli
}

// A lock of redsync has no holder, no beginning and no fence. Its end alone shows that another
// program has it.
func TestSamplerSeesSetNX(t *testing.T) {
	s, _, cli := redisSampler(t, "&layout=string&fences=no")
	look := func() sampler.Name {
		t.Helper()
		if _, err := s.Sample(t.Context()); err != nil {
			t.Fatal(err)
		}
		n, _ := s.Lookup("orders")
		return n
	}
	look()
	cli("set", "t:orders", "one", "NX", "PX", "60000")
	if n := look(); n.State != sampler.Held || n.Grants != 1 || n.Holds[0].Until.IsZero() || !n.Holds[0].Foreign && n.Holds[0].Host != "" {
		t.Errorf("after SET NX: %+v", n)
	}
	cli("pexpire", "t:orders", "90000")
	if n := look(); n.Grants != 1 || n.Holds[0].Renewals != 1 {
		t.Errorf("after a renewal: %+v", n)
	}
	cli("del", "t:orders")
	cli("set", "t:orders", "two", "NX", "PX", "30000")
	if n := look(); n.Grants != 2 || len(n.Ended) != 1 || n.Ended[0].How != sampler.Released {
		t.Errorf("another program has it: %+v", n)
	}
	cli("del", "t:orders")
	if n := look(); n.State != sampler.Free || len(n.Ended) != 2 {
		t.Errorf("after its release: %+v", n)
	}
}

// Cost.Requests is what the server counts.
func TestSamplerCost(t *testing.T) {
	s, l, cli := redisSampler(t, "")
	for i := range 20 {
		if _, err := l.TryAcquire(t.Context(), fmt.Sprint("job/", i), padlock.TTL(50*time.Second), padlock.NoRenewal()); err != nil {
			t.Fatal(err)
		}
	}
	requests := func() (sum int) {
		t.Helper()
		for _, m := range regexp.MustCompile(`cmdstat_(?:evalsha|scan):calls=(\d+)`).FindAllStringSubmatch(cli("info", "commandstats"), -1) {
			n, err := strconv.Atoi(m[1])
			if err != nil {
				t.Fatal(err)
			}
			sum += n
		}
		return sum
	}
	if _, err := s.Sample(t.Context()); err != nil { // it loads the scripts
		t.Fatal(err)
	}
	before := requests()
	const samples = 10
	for range samples {
		if _, err := s.Sample(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	c := s.Snapshot().Cost
	if seen := requests() - before; seen != samples*(c.Calls+c.Names) || c.Names != 20 {
		t.Errorf("the server counts %d requests in %d samples; the cost is %+v", seen, samples, c)
	}
	if c.Requests != float64(c.Calls+c.Names)/c.Interval.Seconds() {
		t.Errorf("the rate is %g: %+v", c.Requests, c)
	}
}
