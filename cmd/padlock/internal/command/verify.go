package command

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/internal/soak"
	"github.com/padlock-go/padlock/internal/soak/linear"
	"github.com/padlock-go/padlock/open"
)

const verifyLong = `verify tests whether a store keeps its promises. It uses the store as many programs
at once would, makes the faults that a client can make, and prints each promise next
to the measured result.

Four processes with eight threads each take, hold, share, convert, hand over and
release some hundred locks, with leases of 0.4 to 2 seconds. Meanwhile verify stops
and kills processes and cancels calls. If the store is one server with one address,
a proxy of verify also resets connections and loses requests and replies. verify
does nothing to the server itself.

The names of its locks begin with padlock-verify- and a random text; it touches no
others. It removes lock files at the end; a server forgets the names within minutes.
The load is that of a very busy application: several thousand operations a second.

If a promise is broken, verify leaves the history of all locks in the directory that
it names at the end. INT or TERM ends the test early; verify then judges what has
been done until then.

Exit status:
  0    no promise was broken
  1    a promise was broken; see the table
  64   the command line or the store's URL is wrong
  69   the store cannot be reached, or could not be reached any more
  70   verify itself failed`

// verification is one run of verify.
type verification struct {
	app   *app
	url   string // of the store
	span  seconds
	seed  uint64
	keep  string
	wires *wires
	run   *soak.Run
}

const (
	exitViolated = 1  // the store broke a guarantee
	exitInternal = 70 // padlock itself failed
)

func (a *app) verifyCommand() *cobra.Command {
	v := &verification{app: a, span: seconds{d: time.Minute, given: true}}
	c := &cobra.Command{
		Use:   "verify [--for SECONDS]",
		Short: "Test whether a store keeps its promises under faults",
		Long:  verifyLong,
		Example: `  padlock verify --store redis://db1:6379
  padlock verify --store redis://db1:6379 --for 10m --json >verified.json
  padlock verify --store file:///var/lib/shared-locks`,
		DisableFlagsInUseLine: true,
		Args:                  noArgs,
		RunE:                  func(c *cobra.Command, _ []string) error { return v.do(c.Context()) },
	}
	c.Flags().Var(&v.span, "for", "test for `SECONDS`")
	c.Flags().Uint64Var(&v.seed, "seed", 0, "the random seed, a `NUMBER`, to repeat a run (default random)")
	c.Flags().StringVar(&v.keep, "keep", "", "the `DIRECTORY` for the history if a promise is broken (default a new temporary one)")
	return c
}

// workerVerb is the hidden command that each worker process of verify runs.
const workerVerb = "verify-worker"

func verifyWorkerCommand() *cobra.Command {
	return &cobra.Command{
		Use:    workerVerb,
		Short:  "Work for padlock verify, which starts this",
		Hidden: true,
		Args:   noArgs,
		RunE: func(*cobra.Command, []string) error {
			signal.Ignore(os.Interrupt, syscall.SIGHUP) // a terminal sends them to every process, but verify itself ends the workers
			soak.PlayWorker(openVerified, soak.JSON)
			return usage("%s is started by padlock verify only", workerVerb)
		},
	}
}

// openVerified opens the store for verify and its workers. Tests replace it. The store remembers
// nothing about the server between processes, because verify leaves no files behind.
var openVerified = func(ctx context.Context, url string) (padlock.Store, error) {
	return open.Store(ctx, url, schemes, open.BetweenProcesses(), open.ForgetSoon())
}

const (
	verifyProcesses  = 4
	verifyGoroutines = 8
)

func (v *verification) do(ctx context.Context) error {
	url, err := v.app.url()
	if err != nil {
		return noURL("", err)
	}
	v.url = url
	if err := v.prepare(ctx); err != nil {
		return err
	}
	defer v.wires.close()
	early, stop := interruptible(ctx)
	defer stop()
	context.AfterFunc(early, func() { stop() }) // from now on a second signal ends the process and its workers
	v.run.Early = early
	out, err := v.run.Do(ctx)
	if err != nil {
		return v.failed(err)
	}
	f, err := v.judge(ctx, out)
	if err != nil {
		return v.failed(err)
	}
	v.sweep(ctx)
	return v.printTable(f)
}

// prepare sets up the run.
func (v *verification) prepare(ctx context.Context) error {
	// Check the server directly: the proxies would accept connections even if the server is down.
	store, err := openVerified(ctx, v.url)
	if err != nil {
		return v.app.explain("", err)
	}
	noticed := store.Guarantees().DeadWaiter
	if err := store.Close(); err != nil {
		return v.failed(err)
	}
	if v.seed == 0 {
		v.seed = uint64(time.Now().UnixNano()) % 1e9
	}
	load := soak.DefaultLoad()
	load.Prefix = fmt.Sprintf("padlock-verify-%s:", rand.Text()[:12])
	v.wires = newWires()
	var config []string
	for range verifyProcesses {
		url, err := v.wires.addProxies(v.url)
		if err != nil {
			v.wires.close()
			return v.failed(err)
		}
		config = append(config, url)
	}
	tail := min(v.span.d/5, 10*time.Second)
	if noticed > 0 { // until then, processes that were killed keep others from their names
		tail = max(tail, min(v.span.d*2/5, noticed+5*time.Second))
	}
	v.run = &soak.Run{
		Name: v.app.place(), Seed: v.seed, For: v.span.d - tail, Tail: tail,
		Workers: verifyProcesses, Goroutines: verifyGoroutines, Load: load,
		Voting: strings.HasPrefix(v.url, "quorum:"),
		Stages: [][]string{config}, Args: []string{workerVerb}, Encoding: soak.JSON,
		Open:  func(ctx context.Context, _ string) (padlock.Store, error) { return openVerified(ctx, v.url) },
		Every: 150 * time.Millisecond, Lanes: 2, SayEvery: 5 * time.Second,
		Say: func(text string) { v.app.say(note{Event: "progress", Message: text}) },
	}
	workers := append(v.run.StopWorker(), v.run.KillWorker())
	for i := range workers {
		workers[i].Weight = 2
	}
	v.run.Faults = append(v.wires.faults(), workers...)
	return nil
}

// failed ends the run without a verdict.
func (v *verification) failed(err error) error {
	if errors.Is(err, padlock.ErrUnavailable) || errors.Is(err, padlock.ErrInvalid) || errors.Is(err, errors.ErrUnsupported) {
		return v.app.explain("", err)
	}
	return fail(exitInternal, "error", "", "verify failed: %s", reason(err))
}

// judge runs all checkers. If one of them finds a violation, judge keeps the history.
func (v *verification) judge(ctx context.Context, out *soak.Outcome) (*measured, error) {
	if err := v.reachable(ctx); err != nil {
		return nil, err
	}
	f := &measured{Report: soak.NewReport(v.run, out), url: v.app.place(), unproxied: v.wires.unproxied}
	var err error
	if f.verdict, err = linear.Check(porcupineJudge, out.Events, "", time.Minute); err != nil {
		return nil, err
	}
	f.Verdict = f.verdict.String()
	if f.Sum() == 0 && f.verdict.Illegal == 0 {
		return f, nil
	}
	return f, v.keepHistory(f, out)
}

// reachable returns an error if the store cannot be reached. It runs before the checkers. Without
// it, a store that has gone down would look like a store that has broken its guarantees.
func (v *verification) reachable(ctx context.Context) error {
	store, err := openVerified(ctx, v.url)
	if err != nil {
		return err
	}
	l := padlock.New(store)
	defer v.app.close(l)
	lock, err := l.Acquire(ctx, v.run.Load.Prefix+"gate", padlock.Wait(5*time.Second))
	if errors.Is(err, padlock.ErrUnavailable) {
		return err
	}
	if err == nil {
		_ = lock.Release() // Acquire has reached the store, so an error of Release does not matter
	}
	return nil
}

// keepHistory writes the history, the report and the pictures into a directory.
func (v *verification) keepHistory(f *measured, out *soak.Outcome) error {
	f.kept = v.keep
	var err error
	if f.kept == "" {
		f.kept, err = os.MkdirTemp("", "padlock-verify-")
	} else {
		err = os.MkdirAll(f.kept, 0o700)
	}
	if err != nil {
		return err
	}
	file, err := os.OpenFile(filepath.Join(f.kept, "history.jsonl"), os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	if err := errors.Join(soak.WriteHistory(file, out.Events), file.Close()); err != nil {
		return err
	}
	if f.verdict.Illegal == 0 {
		return nil
	}
	_, err = linear.Check(porcupineJudge, soak.FilterHistory(out.Events, f.verdict.Names), f.kept, time.Minute)
	return err
}
