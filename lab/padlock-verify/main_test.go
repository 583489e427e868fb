package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/lab/soak"
	"github.com/padlock-go/padlock/open"
)

// as tells this test binary that it is padlock-verify: "verify", or "broken" with a store that
// gives every holder the same fence.
const as = "PADLOCK_VERIFY_AS"

func TestMain(m *testing.M) {
	switch os.Getenv(as) {
	case "broken":
		whole := openStore
		openStore = func(ctx context.Context, url string) (padlock.Store, error) {
			s, err := whole(ctx, url)
			return sameFence{s}, err
		}
		main()
	case "verify":
		main()
	}
	soak.PlayWorker(openInWorker) // of a test that certifies in this process
	os.Exit(m.Run())
}

type sameFence struct{ padlock.Store }

func (s sameFence) Acquire(ctx context.Context, r driver.Request) (driver.Grant, error) {
	g, err := s.Store.Acquire(ctx, r)
	g.Fence = 7
	return g, err
}

// program returns padlock-verify.
func program(t *testing.T, what string, args ...string) *exec.Cmd {
	c := exec.CommandContext(t.Context(), os.Args[0], args...)
	c.Env = append(os.Environ(), as+"="+what)
	return c
}

// verify runs padlock-verify, checks its exit status, and returns what it printed.
func verify(t *testing.T, status int, what string, args ...string) (stdout, stderr string) {
	t.Helper()
	c := program(t, what, args...)
	var out, told bytes.Buffer
	c.Stdout, c.Stderr = &out, &told
	err := c.Run()
	if exit := new(exec.ExitError); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	if got := c.ProcessState.ExitCode(); got != status {
		t.Fatalf("%v: exit status %d, want %d\n%s%s", args, got, status, out.String(), told.String())
	}
	return out.String(), told.String()
}

// prints checks a text against patterns. The text may not match one that begins with "not: ".
func prints(t *testing.T, text string, patterns ...string) {
	t.Helper()
	for _, p := range patterns {
		p, not := strings.CutPrefix(p, "not: ")
		if regexp.MustCompile("(?m)"+p).MatchString(text) == not {
			t.Errorf("%q: matches is %v\n%s", p, not, text)
		}
	}
}

// everyPromise are patterns of a table without a broken promise.
var everyPromise = []string{"^[1-9][0-9]* grants ", `^I1 +no two holders, .* 0 in \d+ grants `, `^I8 .* 0 in \d+ grants `,
	"^linear .* pieces do, 0 do not, 0 took too long", "not: BROKEN"}

// holdDeploy takes the lock "deploy" until the test ends, and then checks that it was still held.
// No renewal changes its record meanwhile.
func holdDeploy(t *testing.T, url string) *padlock.Locker {
	t.Helper()
	store, err := open.Store(t.Context(), url, schemes)
	if err != nil {
		t.Fatal(err)
	}
	l := padlock.New(store)
	t.Cleanup(func() { closeLocker(l) })
	lock, err := l.Acquire(t.Context(), "deploy", padlock.NoRenewal(), padlock.TTL(58*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := lock.Release(); err != nil {
			t.Errorf("the lock that was held meanwhile: %v", err)
		}
	})
	return l
}

// contents returns the files of a directory, which has no directories.
func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, e := range entries {
		text, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		all[e.Name()] = string(text)
	}
	return all
}

// The table shows each promise, and in the directory nothing has changed, even if the terminal is
// closed in the middle.
func TestFiles(t *testing.T) {
	dir := t.TempDir()
	url := "file://" + dir
	holdDeploy(t, url)
	if err := os.WriteFile(filepath.Join(dir, "letter.txt"), []byte("Not a lock.\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	before := contents(t, dir)
	unchanged := func() {
		t.Helper()
		if after := contents(t, dir); !maps.Equal(before, after) {
			t.Errorf("the directory had\n%q, and has\n%q", before, after)
		}
	}
	out, _ := verify(t, 0, "verify", "--store", url, "--for", "3s")
	prints(t, out, append(everyPromise, "^the store file:.*, seed [0-9]+$")...)
	unchanged()

	signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP) // else the program ignores it if the test runs under nohup
	defer signal.Reset(syscall.SIGHUP)
	c := program(t, "verify", "--store", url, "--for", "60s")
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	server.Eventually(t, func() error {
		if files, _ := filepath.Glob(filepath.Join(dir, "*padlock-verify*")); len(files) > 0 {
			return nil
		}
		return errors.New("padlock-verify has not begun")
	})
	if err := errors.Join(c.Process.Signal(syscall.SIGHUP), c.Wait()); err != nil {
		t.Error(err)
	}
	unchanged()
}

// A store that breaks its promises: 1, and the history is kept.
func TestBroken(t *testing.T) {
	url, kept := "file://"+t.TempDir(), filepath.Join(t.TempDir(), "kept")
	out, _ := verify(t, 1, "broken", "--store", url, "--for", "5s", "--keep", kept)
	prints(t, out, "^I2 .* violations +BROKEN", "^I2 padlock-verify-.* fence 7 ", "^the history is in "+regexp.QuoteMeta(kept)+"$")
	if _, err := os.Stat(filepath.Join(kept, "history.jsonl")); err != nil {
		t.Error(err)
	}
}

func TestRefused(t *testing.T) {
	for _, c := range []struct {
		status int
		args   string
		told   string
	}{
		{69, "--store redis://:canary@127.0.0.1:1 --for 2s", `^padlock-verify: the store redis://127\.0\.0\.1:1: `},
		{64, "--store memory: --for 2s", "^padlock-verify: "},
		{64, "--store=", "leave out --store"},
		{64, "--for never", "invalid value"},
		{64, "--for 0", "no time"},
		{64, "--fast", "see padlock-verify --help"},
		{64, "redis://127.0.0.1:1", "is too much"},
	} {
		out, told := verify(t, c.status, "verify", strings.Fields(c.args)...)
		prints(t, told, c.told, "not: canary")
		prints(t, out, "not: .")
	}
	out, _ := verify(t, 0, "verify", "--help")
	prints(t, out, "^Usage:", "^Exit status:")
	for line := range strings.Lines(out) {
		if len(line) > 91 {
			t.Errorf("a line of the help is wider than 90: %s", line)
		}
	}
	out, _ = verify(t, 0, "verify", "--version")
	prints(t, out, "^padlock-verify of a source tree \\(go")
}

// redisCLI returns a function that sends a command to a server, and returns what it printed.
func redisCLI(t *testing.T, url string) func(args ...string) string {
	return func(args ...string) string {
		t.Helper()
		out, err := exec.CommandContext(t.Context(), "redis-cli", append([]string{"--no-auth-warning", "-u", url}, args...)...).CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		return string(out)
	}
}

// Replies get lost, and no key but its own changes.
func TestRedis(t *testing.T) {
	url := server.Redis(t, server.RedisOptions{}).URL()
	ask := redisCLI(t, url)
	ask("hset", "other-app:user", "name", "Ann")
	holdDeploy(t, url)
	// The store may get an id: every program that exports a key creates it.
	const others = `local t = {}; for _, k in ipairs(redis.call("KEYS", "*")) do if not string.find(k, "padlock-verify-", 1, true) and k ~= "padlock:{id}" then
		t[#t + 1] = k .. redis.sha1hex(redis.call("DUMP", k)) end end; table.sort(t); return t`
	before := ask("eval", others, "0")
	out, _ := verify(t, 0, "verify", "--store", url, "--for", "4s")
	prints(t, out, append(everyPromise, "^[1-9][0-9]* faults: .*lost replies", "not: no proxy")...)
	if after := ask("eval", others, "0"); before != after {
		t.Errorf("the other keys were\n%s, and are\n%s", before, after)
	}
	const left = `local n = 0; for _, k in ipairs(redis.call("KEYS", "*padlock-verify-*")) do
		local t = redis.call("PTTL", k); if t == -1 or t > 300000 then n = n + 1 end end; return n`
	if got := strings.TrimSpace(ask("eval", left, "0")); got != "0" {
		t.Errorf("%s keys stay for more than five minutes", got)
	}
}

func TestEtcd(t *testing.T) {
	url := fmt.Sprintf("etcd://%s/", server.Etcd(t, server.EtcdOptions{}).Addr())
	l := holdDeploy(t, url)
	out, _ := verify(t, 0, "verify", "--store", url, "--for", "4s")
	prints(t, out, append(everyPromise, "^[1-9][0-9]* faults: ", "not: no proxy")...)
	states, err := l.List(t.Context(), "")
	if err != nil || len(states) != 1 || states[0].Name != "deploy" {
		t.Errorf("the store has %+v, %v", states, err)
	}
}
