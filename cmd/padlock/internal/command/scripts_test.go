package command

import (
	"context"
	"os"
	"path/filepath"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/open"
)

// This file has padlock as scripts run it. It is part of this test binary, which is padlock-all, and
// of the small program that buildPrograms builds.

// MainOfScripts runs the program of a script that the name of this program chooses.
func MainOfScripts() {
	switch filepath.Base(os.Args[0]) {
	case "padlock-lease": // with a store that has leases and can be made to fail
		leaseMain()
	default:
		command()
	}
}

// command is padlock with a state directory of the script's own. Otherwise it could take a new
// server for the restart of one that had the same port in an earlier test.
func command() {
	isolated(small("")).main()
}

// bePatient changes the time limits that a user shall not have to wait for. On a busy machine they
// would be over before the work is done.
func (p *program) bePatient() {
	p.slotPatience, p.completePatience, p.runsPatience, p.ownPatience = patientLook, patientLook, patientLook, patientLook
	p.quickPatience, p.sameOccasion, p.lossGrace = 2*patientLook, patientLook, patientGrace
	if os.Getenv("BRIEF_RECORD") == "" { // otherwise the script waits for the end of this time
		p.recordPatience = patientLook
	}
}

func isolated(p *program) *program {
	p.bePatient()
	if dir := os.Getenv("STATE"); dir != "" {
		p.historyDir = func() (string, error) { return filepath.Join(dir, "history"), nil }
		p.openStore = func(ctx context.Context, url string, opts ...open.Option) (padlock.Store, error) {
			return open.Store(ctx, url, append(opts, p.schemes, open.BetweenProcesses(), open.StateDir(dir))...)
		}
	}
	return p
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
	p := small("")
	p.bePatient()
	if d, err := time.ParseDuration(os.Getenv("CLOSE_PATIENCE")); err == nil {
		p.closePatience = d
	} else {
		p.closePatience = patientLook
	}
	p.historyDir = func() (string, error) { return filepath.Join(os.Getenv("STATE"), "history"), nil }
	p.openStore = func(ctx context.Context, _ string, _ ...open.Option) (padlock.Store, error) {
		s, err := open.Store(ctx, "memory:")
		return faulty{s, os.Getenv("FAULTS")}, err
	}
	p.main()
}

// faulty is a store that fails as the files in a directory say: "lost" (somebody else has taken the
// lock), "cut" (the server cannot be reached), "hang" (a release gets no answer), "silent" (an
// acquire gets no answer). It makes the file "renewed" when it has extended a hold, and "asked" when
// a release begins to hang.
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
		_ = os.WriteFile(filepath.Join(f.dir, "renewed"), []byte("yes\n"), 0o644) // the test waits for it
	}
	return g, err
}

func (f faulty) Release(ctx context.Context, name, token string, keep time.Duration) (driver.Outcome, error) {
	if _, err := os.Stat(filepath.Join(f.dir, "hang")); err == nil {
		_ = os.WriteFile(filepath.Join(f.dir, "asked"), nil, 0o644) // the test waits for it
		select {}                                                   // and does not heed ctx
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
