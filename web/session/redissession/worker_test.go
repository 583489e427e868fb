package redissession_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/stores/redisstore"
	"github.com/padlock-go/padlock/web/session/redissession"
	"github.com/padlock-go/padlock/web/stampede"
	"github.com/redis/rueidis"
)

// worker is a process of a fleet. It reads lines "N KEY TAKES TTL". For each line, N callers ask
// for KEY, and the function runs for the duration TAKES. The worker writes "run" when the function
// begins, "over" when it ends, and the result of each caller.
func worker(addr string, in io.Reader, out io.Writer) int {
	ctx := context.Background()
	raw, errRaw := rueidis.NewClient(clientOption(addr))
	r, errOpen := redissession.Open(ctx, place(clientOption(addr)))
	s, errLocks := redisstore.Open(ctx, place(clientOption(addr)))
	if err := errors.Join(errRaw, errOpen, errLocks); err != nil {
		fmt.Fprintln(out, err)
		return 1
	}
	defer raw.Close()
	defer r.Close()
	defer s.Close()
	l := padlock.New(s)
	defer l.Close(ctx)
	w := &fleetWorker{raw: raw, locker: l, values: r.Values(), out: out}
	w.say("ready")
	for lines := bufio.NewScanner(in); lines.Scan(); {
		w.work(lines.Text())
	}
	return 0
}

type fleetWorker struct {
	raw    rueidis.Client
	locker *padlock.Locker
	values stampede.Values
	mu     sync.Mutex
	out    io.Writer
}

func (w *fleetWorker) say(words ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	fmt.Fprintln(w.out, words...)
}

func (w *fleetWorker) work(line string) {
	var n int
	var key, takes, ttl string
	fmt.Sscan(line, &n, &key, &takes, &ttl)
	cache, err := stampede.New(w.locker, w.values, "test", func(ctx context.Context, key string) (string, error) {
		return w.makeValue(ctx, key, duration(takes))
	}, stampede.Fresh(duration(ttl)), stampede.Lease(leaseFor(duration(takes))))
	if err != nil {
		w.say("error: " + err.Error())
		return
	}
	defer cache.Close(context.Background())
	var wg sync.WaitGroup
	for range n {
		wg.Go(func() {
			v, err := cache.Get(context.Background(), key)
			if err != nil {
				v = "error: " + err.Error()
			}
			w.say(v)
		})
	}
	wg.Wait()
}

// makeValue is the function of the Cache. If it runs twice at once, its value says so.
func (w *fleetWorker) makeValue(ctx context.Context, key string, takes time.Duration) (string, error) {
	counter := "running:" + key
	now, err := w.raw.Do(ctx, w.raw.B().Incr().Key(counter).Build()).AsInt64()
	w.say("run")
	defer w.say("over")
	if err != nil || now != 1 {
		return fmt.Sprintf("%d run at once, %v", now, err), nil
	}
	select {
	case <-time.After(takes):
	case <-ctx.Done():
	}
	err = w.raw.Do(context.Background(), w.raw.B().Decr().Key(counter).Build()).Error()
	return fmt.Sprintf("value-%d", os.Getpid()), errors.Join(ctx.Err(), err)
}

// leaseFor returns the lease of a worker whose function takes d. It is short for a function that
// takes longer or whose worker is killed. On a busy machine, a worker may stand still for seconds.
func leaseFor(d time.Duration) time.Duration {
	if d < time.Second {
		return 20 * time.Second
	}
	return 5 * time.Second
}

func duration(text string) time.Duration {
	d, err := time.ParseDuration(text)
	if err != nil {
		panic(err)
	}
	return d
}

// process lets a test talk to a worker.
type process struct {
	t     testing.TB
	cmd   *exec.Cmd
	in    io.WriteCloser
	lines chan string
}

func startWorker(t testing.TB, addr string) *process {
	t.Helper()
	exe, err := os.Executable()
	noError(t, err)
	p := &process{t: t, cmd: exec.Command(exe), lines: make(chan string, 1000)}
	p.cmd.Env = append(os.Environ(), "PADLOCK_TEST_WORKER="+addr)
	p.cmd.Stderr = os.Stderr
	p.in, err = p.cmd.StdinPipe()
	noError(t, err)
	out, err := p.cmd.StdoutPipe()
	noError(t, err)
	noError(t, p.cmd.Start())
	go func() {
		for s := bufio.NewScanner(out); s.Scan(); {
			p.lines <- s.Text()
		}
		close(p.lines)
	}()
	t.Cleanup(p.kill)
	p.want("ready")
	return p
}

// kill ends the process as kill -9 does.
func (p *process) kill() {
	p.cmd.Process.Kill()
	for range p.lines { // until the worker's output ends
	}
	p.cmd.Wait()
}

// nextLine returns the next line that the worker printed, or "" if the process has ended.
func (p *process) nextLine() string {
	p.t.Helper()
	select {
	case line := <-p.lines:
		return line
	case <-time.After(time.Minute):
		p.t.Fatal("no line within a minute")
		return ""
	}
}

func (p *process) want(line string) {
	p.t.Helper()
	if got := p.nextLine(); got != line {
		p.t.Fatalf("it says %q, want %q", got, line)
	}
}

func (p *process) ask(n int, key string, takes, ttl time.Duration) {
	_, err := fmt.Fprintln(p.in, n, key, takes, ttl)
	noError(p.t, err)
}

// answers reads the results of n callers. runCount is how often the worker ran its function
// meanwhile.
func (p *process) answers(n int) (runCount int, values []string) {
	p.t.Helper()
	for len(values) < n {
		switch line := p.nextLine(); line {
		case "run":
			runCount++
		case "over":
		default:
			values = append(values, line)
		}
	}
	return runCount, values
}

func fleet(t testing.TB, addr string, n int) []*process {
	t.Helper()
	var all []*process
	for range n {
		all = append(all, startWorker(t, addr))
	}
	return all
}

// TestFleetOneRun has 200 callers in 4 processes ask for a value that is not there.
func TestFleetOneRun(t *testing.T) {
	t.Parallel()
	workers := fleet(t, startRedis(t).Addr(), 4)
	rounds := 1
	if server.IsThorough() {
		rounds = 5
	}
	for round := range rounds {
		start := time.Now()
		for _, p := range workers {
			p.ask(50, fmt.Sprint("key", round), 200*time.Millisecond, time.Minute)
		}
		runs, seen := 0, map[string]bool{}
		for _, p := range workers {
			n, values := p.answers(50)
			runs += n
			for _, v := range values {
				seen[v] = true
			}
		}
		if runs != 1 || len(seen) != 1 {
			t.Errorf("%d runs for 200 callers in 4 processes, who got %v", runs, seen)
		}
		t.Logf("the slowest caller waited %v", time.Since(start))
	}
}

// TestFleetFillerKilled kills the process that makes the value.
func TestFleetFillerKilled(t *testing.T) {
	server.Thorough(t)
	t.Parallel()
	addr := startRedis(t).Addr()
	workers := fleet(t, addr, 2)
	workers[0].ask(1, "key", time.Hour, time.Minute)
	workers[0].want("run")
	workers[1].ask(20, "key", time.Millisecond, time.Minute)
	workers[0].kill()
	askServer(t, dial(t, clientOption(addr)), "DEL", "running:key") // the killed process cannot decrement it
	start := time.Now()
	runs, values := workers[1].answers(20)
	if runs != 1 || !strings.HasPrefix(values[0], "value-") {
		t.Errorf("%d runs, %q", runs, values)
	}
	t.Logf("answered %v after the kill", time.Since(start))
}

// TestFleetSlowerThanTTL has a function that takes longer than the lease and the TTL. Each process
// runs the function, but never two processes at once.
func TestFleetSlowerThanTTL(t *testing.T) {
	server.Thorough(t)
	t.Parallel()
	workers := fleet(t, startRedis(t).Addr(), 2)
	for _, p := range workers {
		p.ask(10, "key", 6*time.Second, time.Nanosecond)
	}
	runs := 0
	for _, p := range workers {
		n, values := p.answers(10)
		runs += n
		for _, v := range values {
			if !strings.HasPrefix(v, "value-") {
				t.Error(v)
			}
		}
	}
	if runs == 0 || runs > len(workers) {
		t.Errorf("%d runs", runs)
	}
	t.Logf("%d runs", runs)
}
