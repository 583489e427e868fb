package semstore

import (
	"bufio"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/safety"
)

// missing skips a test whose tool is not installed. Under CI, the test fails instead.
func missing(t testing.TB, what string, err error) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatalf("%s is missing, and under CI it may not be: %v", what, err)
	}
	t.Skipf("%s is missing (%v): run make test once, which installs it", what, err)
}

// symfonys has the hashes of Symfony.
var symfonys = []Hash{MD5, XXH128}

// unique returns a name that no other run of the tests uses, because all runs share the semaphores
// of the machine. After the test, unique removes the semaphore that a killed process may have left.
func unique(t testing.TB, name string) string {
	name = fmt.Sprintf("padlock %d %s %s", os.Getpid(), t.Name(), name)
	t.Cleanup(func() {
		for _, hash := range symfonys {
			if set, err := find(hash.key(name), false); err == nil {
				_ = remove(set)
			}
		}
	})
	return name
}

func open(t testing.TB, hash Hash, opts ...Option) *Store {
	t.Helper()
	s, err := Open(hash, opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// patience ends a test that hangs.
func patience(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func request(name, token string) driver.Request {
	return driver.Request{Name: name, Token: driver.TokenOf(token), TTL: time.Minute, Holder: driver.Holder{Host: "here", PID: 7, Label: token}}
}

// take acquires a name that must be free.
func take(t testing.TB, s *Store, r driver.Request) {
	t.Helper()
	if _, err := s.Acquire(patience(t), r); err != nil {
		t.Fatalf("Acquire %q for %q: %v", r.Name, r.Token.Text(), err)
	}
}

// refused asks for a name that must be held.
func refused(t testing.TB, s *Store, r driver.Request) *driver.HeldError {
	t.Helper()
	_, err := s.Acquire(patience(t), r)
	safety.Refused(t, err, r.Name)
	var held *driver.HeldError
	if !errors.As(err, &held) {
		t.Fatalf("Acquire %q for %q: %v, want a HeldError", r.Name, r.Token.Text(), err)
	}
	return held
}

func release(t testing.TB, s *Store, name, token string, want driver.Outcome) {
	t.Helper()
	if got, err := s.Release(patience(t), name, token, 0); err != nil || got != want {
		t.Fatalf("Release %q of %q: %v, %v, want %v", name, token, got, err, want)
	}
}

// waiting starts a call of Wait. The function result waits for the end of that call, and returns
// its values.
func waiting(ctx context.Context, s *Store, r driver.Request) (result func() (driver.Grant, error)) {
	type res struct {
		g   driver.Grant
		err error
	}
	c := make(chan res, 1)
	go func() {
		g, err := s.Wait(ctx, r, true)
		c <- res{g, err}
	}()
	return func() (driver.Grant, error) { got := <-c; return got.g, got.err }
}

// eventually calls ok until ok returns true. If the patience of the test ends first, the test
// fails.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for ctx := patience(t); !ok(); {
		select {
		case <-ctx.Done():
			t.Fatal("it never came to this: " + what)
		case <-time.After(time.Millisecond):
		}
	}
}

// waits returns when n programs wait in the kernel.
func waits(t testing.TB, s *Store, name string, n int) {
	t.Helper()
	eventually(t, fmt.Sprintf("%d programs wait", n), func() bool {
		state, err := s.Inspect(patience(t), name)
		return err == nil && state.Waiters == n
	})
}

// child is another process that takes and frees locks when it gets commands.
type child struct {
	t   testing.TB
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Scanner
	mu  sync.Mutex
}

func start(t testing.TB, cmd *exec.Cmd) *child {
	t.Helper()
	cmd.Stderr = os.Stderr
	in, err1 := cmd.StdinPipe()
	out, err2 := cmd.StdoutPipe()
	if err := errors.Join(err1, err2, cmd.Start()); err != nil {
		t.Fatal(err)
	}
	c := &child{t: t, cmd: cmd, in: in, out: bufio.NewScanner(out)}
	t.Cleanup(c.kill)
	return c
}

// kill ends the process as kill -9 does, and returns when it is gone.
func (c *child) kill() {
	_ = c.cmd.Process.Kill()
	_ = c.cmd.Wait()
}

func (c *child) send(command, name string) {
	c.t.Helper()
	if _, err := fmt.Fprintf(c.in, "%s %s\n", command, base64.StdEncoding.EncodeToString([]byte(name))); err != nil {
		c.t.Error(err)
	}
}

func (c *child) expect(answer string) {
	c.t.Helper()
	if !c.out.Scan() || c.out.Text() != answer {
		c.t.Errorf("the other process says %q (%v), want %q", c.out.Text(), c.out.Err(), answer)
	}
}

// want sends a command and checks the answer.
func (c *child) want(command, name, answer string) {
	c.t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.send(command, name)
	c.expect(answer)
}

const childEnv = "PADLOCK_SEMSTORE_CHILD"

func TestMain(m *testing.M) {
	if os.Getenv(childEnv) != "" {
		serve()
		return
	}
	os.Exit(m.Run())
}

// goChild is a process that uses this package.
func goChild(t testing.TB) *child {
	t.Helper()
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), childEnv+"=1")
	return start(t, cmd)
}

// serve carries out the commands of a goChild, all with the token "child".
func serve() {
	s, err := Open(MD5)
	if err != nil {
		panic(err)
	}
	ctx := context.Background()
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		command, encoded, _ := strings.Cut(in.Text(), " ")
		name, _ := base64.StdEncoding.DecodeString(encoded)
		r := request(string(name), "child")
		switch command {
		case "acquire":
			_, err = s.Acquire(ctx, r)
		case "wait":
			_, err = s.Wait(ctx, r, true)
		case "release":
			_, err = s.Release(ctx, r.Name, r.Token.Text(), 0)
		case "storm":
			name, file, _ := strings.Cut(string(name), "\n")
			err = storm(s, name, file)
		case "mill":
			fmt.Println("milling")
			mill(s, strings.Split(string(name), "\n"))
		case "sleeper": // starts a process that outlives this one
			err = exec.Command("sleep", "30").Start()
		}
		fmt.Println(err)
	}
}

// mill takes, awaits and gives back locks until the process is killed.
func mill(s *Store, names []string) {
	for i := 0; ; i++ {
		r := request(names[i%len(names)], fmt.Sprint(i))
		ctx, cancel := context.WithTimeout(context.Background(), time.Duration(i%5)*100*time.Microsecond)
		_, err := s.Acquire(ctx, r)
		if err != nil {
			_, err = s.Wait(ctx, r, true)
		}
		if err == nil {
			s.Release(context.Background(), r.Name, r.Token.Text(), 0) // the loop goes on even after an error
		}
		cancel()
	}
}

// storm takes the lock 25 times. Each time it makes a file and removes it before the release.
// Making the file fails if another process has the lock, too.
func storm(s *Store, name, file string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	for i := range 25 {
		r := request(name, fmt.Sprintf("%d %p %d", os.Getpid(), s, i))
		if err := takeAfterWaiting(ctx, s, r); err != nil {
			return err
		}
		f, err := os.OpenFile(file, os.O_CREATE|os.O_EXCL, 0o600)
		if err != nil {
			return safety.ErrTwoHold("%v", err)
		}
		if err := errors.Join(f.Close(), os.Remove(file)); err != nil {
			return err
		}
		if o, err := s.Release(ctx, name, r.Token.Text(), 0); o != driver.OutcomeReleased {
			return fmt.Errorf("release: %v, %w", o, err)
		}
	}
	return nil
}

func takeAfterWaiting(ctx context.Context, s *Store, r driver.Request) error {
	for {
		g, err := s.Wait(ctx, r, true)
		if err != nil {
			return err
		}
		if _, err = s.Acquire(ctx, r); err == nil {
			return nil
		}
		if errors.Is(err, driver.ErrUnavailable) && lapsed(g) {
			continue // a process stands still while it opens the semaphore
		}
		if !errors.Is(err, driver.ErrHeld) || g.TTL > 0 && !lapsed(g) {
			return err
		}
	}
}

// lapsed reports whether a reservation may have lapsed, since the machine is busy.
func lapsed(g driver.Grant) bool { return driver.SystemClock().Now().Sub(g.From) >= g.TTL }
