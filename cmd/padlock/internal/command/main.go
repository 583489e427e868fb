// Package command is the command line of padlock and of padlock-all.
package command

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/cmd/padlock/internal/serve"
	"github.com/padlock-go/padlock/open"
	"github.com/padlock-go/padlock/storekit/storeurl"
	"github.com/padlock-go/padlock/stores/httpstore"
	"github.com/padlock-go/padlock/stores/memcachestore"
	"github.com/padlock-go/padlock/stores/pgadvisory"
	"github.com/padlock-go/padlock/stores/redisstore"
	"github.com/padlock-go/padlock/stores/semstore"
	"github.com/padlock-go/padlock/stores/sqlstore/drivers/mysql"
	"github.com/padlock-go/padlock/stores/sqlstore/drivers/postgres"

	_ "github.com/padlock-go/padlock/cmd/padlock/internal/supervise/early"
)

// The two programs.
const (
	smallName = "padlock"
	allName   = "padlock-all"
)

// program is what main makes: the stores and functions of one of the two programs, and its time
// limits. Tests make their own.
type program struct {
	programName string      // smallName or allName
	version     string      // of a release build, or ""
	schemes     open.Option // the kinds of stores that this program has
	// runServe runs padlock serve. In padlock it has no page: pages are templates, with which the
	// linker would keep every method of every client, and make the program half as large again.
	runServe func(*serve.Server, context.Context, serve.Source) error
	// openStore opens a store.
	openStore func(ctx context.Context, url string, opts ...open.Option) (padlock.Store, error)
	// historyDir returns the directory with the history of this machine.
	historyDir func() (string, error)

	// slotPatience is the longest time for listing the slots of a name. It is short, because the
	// caller has asked for the name, which may have no slots.
	slotPatience time.Duration
	// completePatience bounds how long a person waits for the names of locks after pressing Tab.
	completePatience time.Duration
	runsPatience     time.Duration // the longest time for reading the runs
	ownPatience      time.Duration // how long ownLock may delay a run
	quickPatience    time.Duration // the time limit of doctor --quick
	recordPatience   time.Duration // how long the history may delay the end of padlock
	// closePatience is how long a store that does not respond may delay the exit. Locks that are
	// not released in that time end with their leases.
	closePatience time.Duration
	// lossGrace is the longest time that the job may run on after the lock was lost. Then padlock
	// kills the job. The time is short, because another process may already hold the lock.
	lossGrace    time.Duration
	sameOccasion time.Duration // see handleSignal
}

// small returns padlock as users have it.
func small(version string) *program {
	p := &program{
		programName: smallName, version: version, schemes: open.Schemes(smallSchemes()...), runServe: (*serve.Server).RunAPI,
		slotPatience: 300 * time.Millisecond, completePatience: 2 * time.Second, runsPatience: 2 * time.Second, ownPatience: time.Second,
		quickPatience: 5 * time.Second, recordPatience: time.Second, closePatience: 5 * time.Second,
		lossGrace: 500 * time.Millisecond, sameOccasion: 3 * time.Second,
	}
	p.openStore = func(ctx context.Context, url string, opts ...open.Option) (padlock.Store, error) {
		if dir, err := open.DefaultDir(); err == nil { // otherwise the store remembers nothing
			opts = append(opts, open.StateDir(dir))
		}
		return open.Store(ctx, url, append(opts, p.schemes, open.BetweenProcesses())...)
	}
	p.historyDir = func() (string, error) {
		dir, err := open.DefaultDir()
		return filepath.Join(dir, "history"), err
	}
	return p
}

// withAll makes the program padlock-all.
func (p *program) withAll(stores []storeurl.Scheme) *program {
	p.programName, p.schemes, p.runServe = allName, open.Schemes(stores...), (*serve.Server).Run
	return p
}

// smallSchemes are the stores of padlock, in addition to those that package open always has.
func smallSchemes() []storeurl.Scheme {
	return []storeurl.Scheme{
		redisstore.Scheme(), postgres.Scheme(), pgadvisory.Scheme(), mysql.Scheme(), mysql.AdvisoryScheme(),
		semstore.Scheme(), memcachestore.Scheme(), httpstore.Scheme(),
	}
}

// main runs the program and exits.
func (p *program) main() {
	misnamed := p.programName == smallName && strings.TrimSuffix(filepath.Base(os.Args[0]), ".exe") == allName
	os.Exit((&app{program: p, stdout: os.Stdout, stderr: os.Stderr, misnamed: misnamed}).execute(os.Args[1:]))
}

// Main runs padlock and exits. version is that of a release build, or "".
func Main(version string) { small(version).main() }

// MainOfAll runs padlock-all, which has every store and the page of serve, and exits.
func MainOfAll(version string, stores []storeurl.Scheme) { small(version).withAll(stores).main() }
