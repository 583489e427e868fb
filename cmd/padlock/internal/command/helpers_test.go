package command

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/open"
)

// sleeper FILE writes its process id and that of its parent into FILE and
// sleeps until a signal ends it, or for ten minutes.
func sleeper() {
	writePids(os.Args[1])
	<-time.After(10 * time.Minute)
}

// catcher FILE CODE does the same, but catches the signals that end programs and
// exits with CODE when one comes; without CODE it ignores them.
func catcher() {
	c := make(chan os.Signal, 8)
	signal.Notify(c, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT)
	writePids(os.Args[1])
	for deadline := time.After(10 * time.Minute); ; {
		select {
		case s := <-c:
			fmt.Println("caught", s)
			if len(os.Args) > 2 {
				code, _ := strconv.Atoi(os.Args[2])
				os.Exit(code)
			}
		case <-deadline:
			return
		}
	}
}

// writePids writes the whole file at once, because others wait for it.
func writePids(file string) {
	text := fmt.Sprintln(os.Getpid(), os.Getppid())
	if os.WriteFile(file+".new", []byte(text), 0o600) != nil || os.Rename(file+".new", file) != nil {
		os.Exit(99)
	}
}

// patientGrace is lossGrace in scripts, in which a job must have the time to say that it was asked
// to end, even on a busy machine.
const patientGrace = 5 * time.Second

// patientLook is how long a program may take in scripts for a question that users shall hardly have
// to wait for.
const patientLook = 10 * time.Second

// leaseMain is padlock with a store that has leases, as a store on a server has. A script whose
// store does not answer sets CLOSE_PATIENCE, so that it need not wait for long.
func leaseMain() {
	bePatient()
	if d, err := time.ParseDuration(os.Getenv("CLOSE_PATIENCE")); err == nil {
		closePatience = d
	} else {
		closePatience = patientLook
	}
	historyDir = func() (string, error) { return filepath.Join(os.Getenv("STATE"), "history"), nil }
	openStore = func(ctx context.Context, _ string, _ ...open.Option) (padlock.Store, error) {
		s, err := open.Store(ctx, "memory:")
		return faulty{s, os.Getenv("FAULTS")}, err
	}
	Main("")
}

// faulty is a store that fails as the files in a directory say: "lost" (somebody else has taken the
// lock), "cut" (the server cannot be reached), "hang" (a release gets no answer), "silent" (an
// acquire gets no answer). It makes the file "renewed" when it has extended a hold.
type faulty struct {
	padlock.Store
	dir string
}

func (f faulty) fault() error {
	if _, err := os.Stat(filepath.Join(f.dir, "lost")); err == nil {
		return driver.ErrLost
	}
	if _, err := os.Stat(filepath.Join(f.dir, "cut")); err == nil {
		return driver.ErrUnavailable
	}
	return nil
}

func (f faulty) Acquire(ctx context.Context, r driver.Request) (driver.Grant, error) {
	if err := f.fault(); err == driver.ErrUnavailable {
		return driver.Grant{}, err
	}
	if _, err := os.Stat(filepath.Join(f.dir, "silent")); err == nil {
		<-ctx.Done()
		return driver.Grant{}, ctx.Err()
	}
	return f.Store.Acquire(ctx, r)
}

func (f faulty) Extend(ctx context.Context, name, token string, ttl time.Duration) (driver.Grant, error) {
	if err := f.fault(); err != nil {
		return driver.Grant{}, err
	}
	g, err := f.Store.Extend(ctx, name, token, ttl)
	if err == nil && ttl > 0 {
		_ = os.WriteFile(filepath.Join(f.dir, "renewed"), nil, 0o644) // the test waits for it
	}
	return g, err
}

func (f faulty) Release(ctx context.Context, name, token string, keep time.Duration) (driver.Outcome, error) {
	if _, err := os.Stat(filepath.Join(f.dir, "hang")); err == nil {
		select {} // and does not heed ctx
	}
	switch err := f.fault(); err {
	case nil:
		return f.Store.Release(ctx, name, token, keep)
	case driver.ErrLost:
		return driver.OutcomeTaken, nil
	default:
		return driver.OutcomeGone, err
	}
}
