package mysqladvisory_test

import (
	"bufio"
	"context"
	"database/sql"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/stores/mysqladvisory"
	"github.com/padlock-go/padlock/stores/sqlstore/drivers/mysql"
)

// The environment of a child process that takes part in a test.
const (
	childDSN  = "PADLOCK_TEST_DSN"
	childMode = "PADLOCK_TEST_MODE" // hold or wait
)

func TestMain(m *testing.M) {
	if os.Getenv(childMode) != "" {
		child()
	}
	os.Exit(server.Main(m))
}

// child takes or awaits the name "job" and says so. If it loses the lock, it says that too.
func child() {
	ctx := context.Background()
	s, err := open(ctx, os.Getenv(childDSN), mysqladvisory.SessionTimeout(10*time.Second))
	var g driver.Grant
	if err == nil && os.Getenv(childMode) == "hold" {
		g, err = s.Acquire(ctx, request("job"))
	}
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println("ready")
	if os.Getenv(childMode) == "wait" {
		s.(ownPool).Wait(ctx, request("job"), true)
	} else {
		<-g.Bound.Done()
		fmt.Println("lost")
	}
	select {}
}

// A helper is a child process.
type helper struct {
	t       *testing.T
	out     *bufio.Reader
	process *os.Process
}

// startChild returns when the child is ready.
func startChild(t *testing.T, mode, dsn string) *helper {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childMode+"="+mode, childDSN+"="+dsn)
	out, err := cmd.StdoutPipe()
	noError(t, err)
	noError(t, cmd.Start())
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	h := &helper{t, bufio.NewReader(out), cmd.Process}
	h.says("ready")
	return h
}

// says waits for a line of the child.
func (h *helper) says(want string) {
	h.t.Helper()
	if line, err := h.out.ReadString('\n'); strings.TrimSpace(line) != want {
		h.t.Fatalf("the child says %q, %v; want %q", line, err, want)
	}
}

// open opens a store with a pool of its own, as another process would.
func open(ctx context.Context, dsn string, opts ...mysqladvisory.Option) (driver.Store, error) {
	db, err := sql.Open("mysql", dsn)
	if err != nil {
		return nil, err
	}
	s, err := mysqladvisory.Open(ctx, db, opts...)
	if err != nil {
		db.Close()
		return nil, err
	}
	return ownPool{s, db}, nil
}

// ownPool is a store that closes its pool.
type ownPool struct {
	*mysqladvisory.Store
	db *sql.DB
}

// Unwrap returns the store, for driver.As and driver.SamePlace.
func (o ownPool) Unwrap() driver.Store { return o.Store }

// Close closes the store and then its pool.
func (o ownPool) Close() error {
	err := o.Store.Close()
	o.db.Close()
	return err
}

// mustOpen opens a patient store, since on a busy machine the server may be silent for seconds. If
// the options have a LossDelay of their own, that one counts.
func mustOpen(t testing.TB, dsn string, opts ...mysqladvisory.Option) *mysqladvisory.Store {
	t.Helper()
	s, err := open(t.Context(), dsn, slices.Concat(patient, opts)...)
	noError(t, err)
	t.Cleanup(func() { s.Close() })
	return s.(ownPool).Store
}

// fromURL opens the store of a database by its URL.
func fromURL(ctx context.Context, dsn, query string) (*mysqladvisory.Store, error) {
	user, rest, _ := strings.Cut(dsn, "@tcp(")
	host, database, _ := strings.Cut(rest, ")/")
	u, err := url.Parse("mysql+advisory://" + user + "@" + host + "/" + database + "?" + query)
	if err != nil {
		return nil, err
	}
	return mysqladvisory.FromURL(ctx, u, mysql.AdvisoryOpener())
}

// mustOpenURL is mustOpen for a URL.
func mustOpenURL(t testing.TB, dsn, query string) *mysqladvisory.Store {
	t.Helper()
	if !strings.Contains(query, "loss-delay") {
		query += "&" + patiently
	}
	s, err := fromURL(t.Context(), dsn, query)
	noError(t, err)
	t.Cleanup(func() { s.Close() })
	return s
}
