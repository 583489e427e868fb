package adapters

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/open"
	"github.com/padlock-go/padlock/stores/redisstore"
	"github.com/padlock-go/padlock/stores/sqlstore/drivers/sqlite"
)

// roles are what a process of a test can be.
var roles = map[string]func(p *process) error{
	"certmagic": obtainCertificate, "gocron": runScheduler, "cron": runCron, "http": serveShop, "goose": runMigrations,
	"watermill": handleMessages, "migrate": runMigrate, "grpc": serveCalls,
}

// process is a child of a test. It reads a line from the test for each thing that it does, and
// replies with a line.
type process struct {
	url    string // of the lock store
	dir    string // shared by all processes of the test
	locker *padlock.Locker
	lines  *bufio.Scanner
}

// next waits for the next line of the test. It returns false when the test has ended.
func (p *process) next() bool { return p.lines.Scan() }

func (p *process) say(line string) { fmt.Println(line) }

const roleEnv = "ADAPTERS_ROLE"

func TestMain(m *testing.M) {
	role, rest, isChild := strings.Cut(os.Getenv(roleEnv), " ")
	if !isChild {
		os.Exit(m.Run())
	}
	url, dir, _ := strings.Cut(rest, " ")
	l, err := openLocker(url)
	if err == nil {
		err = roles[role](&process{url, dir, l, bufio.NewScanner(os.Stdin)})
	}
	if err != nil {
		fmt.Println("failed:", err)
		os.Exit(1)
	}
	l.Close(context.Background())
}

func openLocker(url string, opts ...padlock.LockerOption) (*padlock.Locker, error) {
	store, err := open.Store(context.Background(), url, open.Schemes(redisstore.Scheme(), sqlite.Scheme()))
	if err != nil {
		return nil, err
	}
	return padlock.New(store, opts...), nil
}

// eachStore runs a test on Redis, on SQLite and on files. The directory is for data that the
// processes of the test share.
func eachStore(t *testing.T, f func(t *testing.T, url, dir string)) {
	for name, url := range map[string]func(t *testing.T) string{
		"redis":  func(t *testing.T) string { return server.Redis(t, server.RedisOptions{}).URL() },
		"sqlite": func(t *testing.T) string { return "sqlite://" + filepath.Join(t.TempDir(), "locks.db") },
		"files":  func(t *testing.T) string { return "file://" + t.TempDir() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f(t, url(t), t.TempDir())
		})
	}
}

// newLocker returns a Locker of the test's own process.
func newLocker(t *testing.T, url string) *padlock.Locker {
	t.Helper()
	l, err := openLocker(url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close(context.Background()) })
	return l
}

// A child is a process as the test sees it.
type child struct {
	t     *testing.T
	in    io.Writer
	lines *bufio.Scanner
}

// start starts a process, which ends with the test.
func start(t *testing.T, role, url, dir string) *child {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), roleEnv+"="+role+" "+url+" "+dir)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		if err := cmd.Wait(); err != nil {
			t.Errorf("the process %s ended with %v", role, err)
		}
	})
	return &child{t, in, bufio.NewScanner(out)}
}

// tell sends a line.
func (c *child) tell(line string) {
	c.t.Helper()
	if _, err := fmt.Fprintln(c.in, line); err != nil {
		c.t.Fatal(err)
	}
}

// hear returns the next line of the process.
func (c *child) hear() string {
	c.t.Helper()
	if !c.lines.Scan() {
		c.t.Fatal("the process has ended")
	}
	return c.lines.Text()
}

// note appends a line to a file that the processes share.
func note(dir, line string) error {
	f, err := os.OpenFile(filepath.Join(dir, "notes"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = fmt.Fprintln(f, line)
	return err
}

// notes returns the lines of that file.
func notes(t *testing.T, dir string) []string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "notes"))
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return strings.Fields(string(text))
}
