package padlock

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/driver/fast"
)

// Store is a place where locks are kept. Packages memstore, filestore and quorum, and the modules
// of the other stores, provide stores.
type Store = driver.Store

// State is the state of a name, as Inspect and List return it.
type State = driver.State

// Hold is one hold on a name, as it appears in State and HeldError. It has the Holder, the times Since, Until (the present end of the lease) and PlannedEnd, and the
// flags Shared, Foreign (not taken by padlock) and Cooling (nobody holds the name, it cools down).
type Hold = driver.Hold

// Holder is the part of a Hold that says who has it: Host, PID, Label, Plan and Trace.
type Holder = driver.Holder

// Guarantees are the promises of a store.
type Guarantees = driver.Guarantees

// A Locker takes locks in one store. It waits, renews, watches deadlines, cleans up and reports
// events, in the same way for all stores. It is safe for concurrent use; a program needs one Locker
// for each store.
type Locker struct {
	store      driver.Store
	waiter     driver.Waiter    // nil if the store cannot wake waiters
	converter  driver.Converter // nil if the store cannot change a mode
	slotTaker  fast.SlotTaker   // nil if the store cannot take a permit in one step
	admin      driver.Admin     // nil if the store cannot show or end holds; the error of a method that it lacks says why
	locations  driver.Places    // nil if the store cannot tell where it keeps locks; see the method can
	guarantees driver.Guarantees
	cfg        config
	clock      driver.Clock
	host       string
	pid        int
	closing    context.Context // ends when Close begins, so that all waiters give up
	closeDone  chan struct{}   // closed when the first Close returns
	closeErr   error           // what Close returns; set before closeDone is closed
	beginClose context.CancelCauseFunc
	stats      counters
	unclosed   runtime.Cleanup                     // warns if the Locker is garbage-collected without Close
	sample     atomic.Uint32                       // counts locks; see sampleEvery
	shown      atomic.Pointer[func(string) string] // set by ShowNames; nil if names are shown unchanged

	mu            sync.Mutex  // guards the fields below, and the state of every Lock
	pending       eventQueues // the queues whose events are delivered when mu is unlocked
	closed        bool
	observersLate bool  // a call has waited for an observer longer than observerPatience
	calls         calls // what Close waits for
	lines         map[string]*line
	permitWaiters map[string]int // how many callers wait for a permit, by the name of the gate; nil if none has waited
	handover      handoverState
	renewer       renewer
	cleaner       cleaner
	forgotten     map[string]bool // the names that the log of forgotten locks has; nil if there are none
}

// New returns a Locker. It owns store: Close closes the store too, unless KeepStoreOpen is given.
// An Option among opts becomes the default for all locks of this Locker. A nil option does nothing.
//
// If a Locker that owns its store is garbage-collected without Close, slog.Default gets one warning.
//
// New sends no request, so it returns no error. It panics if store is nil, and if an option is wrong
// for this store, such as a TTL above Guarantees().MaxTTL: that is found when the program starts, and
// not in its first call.
func New(store Store, opts ...LockerOption) *Locker {
	if store == nil {
		panic("padlock: the store is nil")
	}
	l := &Locker{store: store, guarantees: store.Guarantees(), pid: os.Getpid(), lines: make(map[string]*line)}
	l.cfg = config{defaults: settings{ttl: l.defaultTTL(), wait: waitForContext}, maxWaiters: defaultMaxWaiters}
	for _, o := range opts {
		if o != nil {
			o.applyLocker(&l.cfg)
		}
	}
	l.cfg.defaults.complete(&l.guarantees)
	if err := l.cfg.check(&l.guarantees); err != nil {
		panic("padlock: New: " + err.Error())
	}
	if l.clock = l.cfg.clock; l.clock == nil {
		l.clock = driver.SystemClock()
	}
	l.waiter, _ = driver.As[driver.Waiter](store)
	l.converter, _ = driver.As[driver.Converter](store)
	l.slotTaker, _ = driver.As[fast.SlotTaker](store)
	l.admin, _ = driver.As[driver.Admin](store)
	l.locations, _ = driver.As[driver.Places](store)
	l.host, _ = os.Hostname()
	l.host = l.host[:min(len(l.host), driver.MaxHost)]
	l.closing, l.beginClose = context.WithCancelCause(context.Background())
	l.closeDone = make(chan struct{})
	l.initHandover()
	l.renewer.init(l)
	l.cleaner.init(l)
	if !l.cfg.keepStore && !l.guarantees.InProcess {
		l.unclosed = runtime.AddCleanup(l, logUnclosed, l.guarantees.Store)
	}
	return l
}

// demand panics if the program makes a mistake that no value of a setting could cause: a nil
// context or function, or a Locker that New has not made. It must be called before anything is
// changed.
func (l *Locker) demand(ctx context.Context) {
	if l == nil || l.store == nil {
		panic("padlock: New has not made this Locker")
	}
	demandContext(ctx)
}

func demandContext(ctx context.Context) {
	if ctx == nil {
		panic("padlock: the context is nil")
	}
}

func demandFunction(fn func(context.Context) error) {
	if fn == nil {
		panic("padlock: the function is nil")
	}
}

// whoClosed returns err with an advice if it says that the store is closed, and l is not.
func (l *Locker) whoClosed(err error) error {
	if !errors.Is(err, ErrClosed) || l.closing.Err() != nil {
		return err
	}
	return fmt.Errorf("%w: another Locker with this store has closed the store, or the program has; see KeepStoreOpen", err)
}

// Format writes the kind of the store. Printing the fields of a Locker would be a data race.
func (l *Locker) Format(f fmt.State, _ rune) {
	fmt.Fprintf(f, "Locker for a store of the kind %q", l.guarantees.Store)
}

// defaultTTL is DefaultTTL, or the nearest TTL that the store allows.
func (l *Locker) defaultTTL() time.Duration {
	d := max(DefaultTTL, l.guarantees.MinTTL)
	if m := l.guarantees.MaxTTL; m > 0 {
		d = min(d, m)
	}
	return d
}

// Guarantees returns the promises of the store.
func (l *Locker) Guarantees() Guarantees { return l.guarantees }

// ShowNames makes l use shownAs(name) instead of name in its log and its events. So names that
// contain secrets stay hidden. If ShowNames is called more than once, each function gets the result
// of the function before. The functions must be quick and safe for concurrent use.
func (l *Locker) ShowNames(shownAs func(name string) string) {
	l.mu.Lock()
	defer l.unlock()
	if before := l.shown.Load(); before != nil {
		after := shownAs
		shownAs = func(name string) string { return after((*before)(name)) }
	}
	l.shown.Store(&shownAs)
}

// Inspect asks the store for the holders of name. The reply may be outdated when it arrives: use it
// as advice. A store that cannot list its holders returns errors.ErrUnsupported. If the store knows
// a part of the state, Inspect returns that part together with the error. For example, a process in
// another container may hold a file lock. Then State.Holds has one Hold whose fields are all zero.
func (l *Locker) Inspect(ctx context.Context, name string) (State, error) {
	l.demand(ctx)
	if err := driver.CheckName(name, &l.guarantees); err != nil {
		return State{}, failed(OpInspect, name, err)
	}
	if l.admin == nil {
		return State{}, failed(OpInspect, name, errors.ErrUnsupported)
	}
	state, err := l.admin.Inspect(ctx, name)
	if err != nil {
		return state, failed(OpInspect, name, err)
	}
	return state, nil
}

// List asks the store for the names that begin with prefix and are held, are cooling down or have
// waiters. A store that cannot list its names returns errors.ErrUnsupported. If the store knows
// only some of these names, List returns their states together with the error, which is
// errors.ErrUnsupported or ErrUnavailable.
func (l *Locker) List(ctx context.Context, prefix string) ([]State, error) {
	l.demand(ctx)
	if l.admin == nil {
		return nil, failed(OpList, prefix, errors.ErrUnsupported)
	}
	states, err := l.admin.List(ctx, prefix)
	if err != nil {
		return states, failed(OpList, prefix, err)
	}
	return states, nil
}

// Break ends all holds on name by force, and returns a fence above all earlier ones. The parameter
// seenFence is the fence that Inspect returned. If the fence of name has changed since then, Break
// returns ErrLost and ends no hold. A holder whose lock was broken does not notice that before its
// next request to the store. Only a resource that checks fences stops it earlier. A store that
// cannot break locks returns errors.ErrUnsupported.
func (l *Locker) Break(ctx context.Context, name string, seenFence uint64) (uint64, error) {
	l.demand(ctx)
	if l.admin == nil {
		return 0, failed(OpBreak, name, errors.ErrUnsupported)
	}
	fence, err := l.admin.Break(ctx, name, seenFence)
	if err != nil {
		return 0, failed(OpBreak, name, err)
	}
	return fence, nil
}

// Finding is one fact about a server, as Status returns it.
type Finding = driver.Finding

// Status asks the store for facts about its server: version, uptime, persistence, … A fact that
// could not be read has the value driver.Unknown. A store without a server returns
// errors.ErrUnsupported.
func (l *Locker) Status(ctx context.Context) ([]Finding, error) {
	l.demand(ctx)
	r, ok := driver.As[driver.Reporter](l.store)
	if !ok {
		return nil, failed(OpStatus, "", errors.ErrUnsupported)
	}
	found, err := r.Status(ctx)
	if err != nil {
		return nil, failed(OpStatus, "", callerError(ctx, err))
	}
	return found, nil
}

// Stats counts the locks and calls of a Locker. Held, Waiting and CleanUps are current numbers. All
// other numbers are totals since New.
type Stats struct {
	Held, Waiting                        int    // now
	Acquired, Contended, Refused         uint64 // calls
	Renewals, RenewalErrors              uint64
	Lost                                 uint64 // how often EventLost happened
	Uncertain, CleanUps, CleanUpsDropped uint64 // CleanUps: under way now
}

// counters is guarded by Locker.mu.
type counters struct {
	waiting                      int
	acquired, contended, refused uint64
	renewals, renewalErrors      uint64
	lost, uncertain, dropped     uint64
}

// Stats returns the current counts.
func (l *Locker) Stats() Stats {
	l.mu.Lock()
	defer l.unlock()
	s := &l.stats
	return Stats{
		Held: len(l.renewer.heap) - l.renewer.hidden, Waiting: s.waiting,
		Acquired: s.acquired, Contended: s.contended, Refused: s.refused,
		Renewals: s.renewals, RenewalErrors: s.renewalErrors, Lost: s.lost,
		Uncertain: s.uncertain, CleanUps: uint64(l.cleaner.open), CleanUpsDropped: s.dropped,
	}
}
