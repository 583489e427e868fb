package padlock

import (
	"context"
	crand "crypto/rand"
	"encoding/base64"
	"errors"
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/padlock-go/padlock/driver"
)

// Store is where locks are kept: what memstore, filestore, quorum and the
// store modules open.
type Store = driver.Store

// State is what Inspect and List tell about a name.
type State = driver.State

// Hold is one hold on a name, as Inspect, List and HeldError tell of it.
type Hold = driver.Hold

// Guarantees is what a store promises.
type Guarantees = driver.Guarantees

// A Locker takes locks in one store. Waiting, renewal, deadlines, clean-up and
// logging live here, once for all stores. It is safe for concurrent use; a
// program needs one per store.
type Locker struct {
	store      driver.Store
	enqueuer   driver.Enqueuer   // nil unless the store lives in this process
	identifier driver.Identifier // nil if the store has no id
	waiter     driver.Waiter     // nil if the store wakes nobody
	converter  driver.Converter  // nil if the store cannot change a mode
	guarantees driver.Guarantees
	cfg        config
	clock      driver.Clock
	owned      bool // Close closes the store
	host       string
	pid        int
	closing    context.Context // ends when Close begins; ends all waits
	closeDone  chan struct{}   // closed when the first Close returns
	closeErr   error           // of the first Close; read it after closeDone
	beginClose context.CancelCauseFunc
	stats      counters
	shown      atomic.Pointer[func(string) string] // of ShowNames; nil: names are shown as they are

	mu       sync.Mutex    // guards what follows, and the state of every Lock
	pending  []*eventQueue // to be delivered when mu is given up
	closed   bool
	attempts int           // what Close waits for: calls that take or release a lock, functions of Do
	drained  chan struct{} // of Close: closed when attempts is 0
	random   *rand.ChaCha8
	queues   map[string]*queue
	handover handoverState
	renewer  renewer
	cleaner  cleaner
}

// New returns a Locker that owns store: Close closes the store too. A second
// Locker on the same store is made with NewShared. An Option among opts is the
// default for all locks of this Locker.
//
// New sends nothing, so it cannot fail. It panics if store is nil.
func New(store Store, opts ...LockerOption) *Locker {
	l := newLocker(store, opts)
	l.owned = true
	return l
}

// NewShared returns a Locker like New, but Close leaves the store open. It is
// for a store that other Lockers, or other parts of the program, use as well.
func NewShared(store Store, opts ...LockerOption) *Locker { return newLocker(store, opts) }

func newLocker(store Store, opts []LockerOption) *Locker {
	if store == nil {
		panic("padlock: the store is nil")
	}
	l := &Locker{store: store, guarantees: store.Guarantees(), pid: os.Getpid(), queues: make(map[string]*queue)}
	l.cfg = config{defaults: settings{ttl: l.defaultTTL(), wait: waitForContext}, maxWaiters: DefaultMaxWaiters}
	for _, o := range opts {
		o.applyLocker(&l.cfg)
	}
	if l.clock = l.cfg.clock; l.clock == nil {
		l.clock = driver.SystemClock()
	}
	l.waiter, _ = driver.As[driver.Waiter](store)
	l.identifier, _ = driver.As[driver.Identifier](store)
	l.converter, _ = driver.As[driver.Converter](store)
	if l.guarantees.InProcess {
		l.enqueuer, _ = driver.As[driver.Enqueuer](store)
	}
	l.host, _ = os.Hostname()
	l.host = l.host[:min(len(l.host), driver.MaxLabel)]
	l.closing, l.beginClose = context.WithCancelCause(context.Background())
	l.closeDone = make(chan struct{})
	l.initHandover()
	l.renewer.init(l)
	l.cleaner.init(l)
	l.reseed()
	return l
}

// defaultTTL is DefaultTTL, as far as the store allows it.
func (l *Locker) defaultTTL() time.Duration {
	d := max(DefaultTTL, l.guarantees.MinTTL)
	if m := l.guarantees.MaxTTL; m > 0 {
		d = min(d, m)
	}
	return d
}

// Guarantees says what the store promises.
func (l *Locker) Guarantees() Guarantees { return l.guarantees }

// storeID returns the id of the store, or "" if it has none or cannot be asked now.
func (l *Locker) storeID(ctx context.Context) string {
	if l.identifier == nil {
		return ""
	}
	id, err := l.identifier.StoreID(ctx)
	if err != nil {
		return ""
	}
	return id
}

// Tokens come from ChaCha8 under a key from the system's generator, renewed
// now and then: a read from the system for each token costs a quarter of an
// acquire in memory. A token names a hold; it is no password.
const tokensPerSeed = 1 << 16

func (l *Locker) reseed() {
	var seed [32]byte
	crand.Read(seed[:])
	l.random = rand.NewChaCha8(seed)
}

// newToken returns 32 random bytes in base64, as Symfony's clients write them.
// The caller holds l.mu.
func (l *Locker) newToken() string {
	if l.stats.tokens++; l.stats.tokens%tokensPerSeed == 0 {
		l.reseed()
	}
	var raw [32]byte
	l.random.Read(raw[:])
	var text [44]byte
	base64.StdEncoding.Encode(text[:], raw[:])
	return string(text[:])
}

// Inspect asks the store about the holders of name. The answer is advice, and
// old when it arrives: to know that a lock is yours, hold it. A store that does
// not know returns errors.ErrUnsupported.
func (l *Locker) Inspect(ctx context.Context, name string) (State, error) {
	if err := driver.CheckName(name, &l.guarantees); err != nil {
		return State{}, failed(OpInspect, name, err)
	}
	i, ok := driver.As[driver.Inspector](l.store)
	if !ok {
		return State{}, failed(OpInspect, name, errors.ErrUnsupported)
	}
	state, err := i.Inspect(ctx, name)
	if err != nil {
		return State{}, failed(OpInspect, name, err)
	}
	return state, nil
}

// List asks the store for the names that begin with prefix and are held, cool
// down or are waited for. A store that does not know returns
// errors.ErrUnsupported.
func (l *Locker) List(ctx context.Context, prefix string) ([]State, error) {
	i, ok := driver.As[driver.Lister](l.store)
	if !ok {
		return nil, failed(OpList, prefix, errors.ErrUnsupported)
	}
	states, err := i.List(ctx, prefix)
	if err != nil {
		return nil, failed(OpList, prefix, err)
	}
	return states, nil
}

// Break ends everybody's hold on name by force, if seenFence is still its
// fence, as Inspect returned it; otherwise the error answers errors.Is for
// ErrLost. It returns a fence above all earlier ones. An evicted holder goes on
// working until it asks the store; only a resource that checks fences stops it
// before.
func (l *Locker) Break(ctx context.Context, name string, seenFence uint64) (uint64, error) {
	b, ok := driver.As[driver.Breaker](l.store)
	if !ok {
		return 0, failed(OpBreak, name, errors.ErrUnsupported)
	}
	fence, err := b.Break(ctx, name, seenFence)
	if err != nil {
		return 0, failed(OpBreak, name, err)
	}
	return fence, nil
}

// Finding is one thing that Status found out about a server.
type Finding = driver.Finding

// Status asks the store what its server is found to be: version, uptime,
// persistence, … What could not be read has the value driver.Unknown. A store
// that has no server, or nothing to tell, answers errors.ErrUnsupported.
func (l *Locker) Status(ctx context.Context) ([]Finding, error) {
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
