package semstore

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/storekit"
)

// Store keeps locks in the semaphores of this machine or, in a container, of its IPC namespace. It
// is safe for concurrent use. Two stores with the same Hash exclude each other, even in one
// process.
type Store struct {
	hash    Hash
	config  config
	threads chan struct{} // one element for each wait in the kernel
	calls   storekit.Calls

	mu    sync.Mutex
	inUse map[storekit.HoldID]chan struct{} // closed when the call for the hold ends
	holds map[storekit.HoldID]*hold
	bySet map[int]*hold
}

// hold is a lock that this store has.
type hold struct {
	id       storekit.HoldID
	name     string
	set      int
	holder   driver.Holder
	since    time.Time
	reserved *time.Timer // gives back a reservation that nobody claims; nil for a hold
}

var _ interface {
	driver.Store
	driver.Waiter
	driver.Admin
	driver.Reporter
	driver.Places
} = (*Store)(nil)

// Open returns a store that keeps its locks in the same semaphores as PHP's Symfony. Symfony finds
// the semaphore of a lock by a hash of the lock's name. The argument hash must be the hash function
// that the installed version of Symfony uses. With NoHash, the store shares its locks with programs
// in PHP that call sem_get with a number. Open opens no semaphore.
//
// Open returns driver.ErrInvalid for an unknown hash. It returns errors.ErrUnsupported on systems
// other than 64-bit Linux.
func Open(hash Hash, opts ...Option) (*Store, error) {
	if _, ok := hashes[hash]; !ok {
		return nil, storekit.Invalidf("%v: the hash is semstore.MD5, semstore.XXH128 or semstore.NoHash", hash)
	}
	if !supported {
		return nil, fmt.Errorf("semaphores are kept on Linux only: %w", errors.ErrUnsupported)
	}
	c := config{threads: DefaultMaxThreads, key: hash.key, keep: hash == NoHash}
	storekit.Apply(&c, opts)
	s := &Store{
		hash: hash, config: c, threads: make(chan struct{}, c.threads),
		inUse: map[storekit.HoldID]chan struct{}{}, holds: map[storekit.HoldID]*hold{}, bySet: map[int]*hold{},
	}
	s.calls.Open()
	return s, nil
}

// Guarantees implements driver.Store; docs/stores/semaphore.md explains the promises.
func (s *Store) Guarantees() driver.Guarantees { return guarantees }

var guarantees = driver.Guarantees{
	Store:         "semaphore",
	SafeClockJump: driver.PromiseYes,
	SafeEviction:  driver.PromisePartly,
	Bound:         driver.BoundToProcess,
	Fence:         driver.FenceNone,
	Hashed:        true,
	Lacks:         driver.AbilityList | driver.AbilityBreak | driver.AbilityStoreID,
	Notes: []string{
		"All programs run on one Linux machine, in one IPC namespace, and use the same hash of names.",
		"ipcrm, and systemd's RemoveIPC at the logout of a user, remove semaphores that are held and so free the name. The holder notices within 2.2 seconds, or at its next call.",
		"Every user of the machine can hold and free any lock, because PHP makes semaphores that everybody may use.",
		"A key has 32 bits: two names whose keys are equal exclude each other, and the error says so if one process uses both.",
		"A reboot frees every hold.",
		"A waiter that is stopped (SIGSTOP) may get the lock when its holder is killed or, with hash=none, releases it. The waiter then keeps the lock until it continues or ends.",
		"Of a hold of another process only the number of the process is known, and whether it uses padlock.",
	},
}

// StoreID implements driver.Places: the kernel has no place for an id.
func (s *Store) StoreID(context.Context) (string, error) { return "", errors.ErrUnsupported }

// SamePlace implements driver.Places. All semaphores of a process are in one place.
func (s *Store) SamePlace(other driver.Store) bool {
	_, ok := other.(*Store)
	return ok
}

// beginCall is the first step of every call. The argument hold is the id of the hold that the
// call uses, or the zero id. If another call uses the same hold, beginCall waits until that call
// has ended.
func (s *Store) beginCall(ctx context.Context, hold storekit.HoldID) (end func(), err error) {
	if err := s.calls.Begin(ctx); err != nil {
		return nil, err
	}
	if hold == (storekit.HoldID{}) {
		return s.calls.Work.Done, nil
	}
	used := make(chan struct{})
	for other := s.use(hold, used); other != nil; other = s.use(hold, used) {
		select {
		case <-other:
		case <-ctx.Done():
			s.calls.Work.Done()
			return nil, ctx.Err()
		}
	}
	return func() {
		s.mu.Lock()
		delete(s.inUse, hold)
		s.mu.Unlock()
		close(used)
		s.calls.Work.Done()
	}, nil
}

// use returns nil if no other call uses the hold. Otherwise it returns the channel of that call.
func (s *Store) use(of storekit.HoldID, used chan struct{}) (other chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if other = s.inUse[of]; other == nil {
		s.inUse[of] = used
	}
	return other
}

// endedEarly returns an error if a call must end early, because ctx has ended or the store was
// closed. Otherwise it returns nil.
func (s *Store) endedEarly(ctx context.Context) error {
	if s.calls.Closing.Err() != nil {
		return driver.ErrClosed
	}
	return ctx.Err()
}

func (s *Store) find(of storekit.HoldID) *hold {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.holds[of]
}

func (s *Store) add(h *hold) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.holds[h.id], s.bySet[h.set] = h, h
}

// drop forgets a hold. It reports whether the store still had it.
func (s *Store) drop(h *hold) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.holds[h.id] != h {
		return false
	}
	delete(s.holds, h.id)
	if s.bySet[h.set] == h {
		delete(s.bySet, h.set)
	}
	if h.reserved != nil {
		h.reserved.Stop()
	}
	return true
}

// live reports whether a hold is still held. If it is lost, live forgets it.
func (s *Store) live(h *hold) bool {
	held, err := isHeld(h.set)
	if err == nil && held && holder(h.set, semLock) == os.Getpid() {
		return true
	}
	if s.drop(h) {
		forfeit(h.set)
	}
	return false
}

// freeLock releases the lock of h. The store has already forgotten h (see drop).
func (s *Store) freeLock(h *hold) (driver.Outcome, error) {
	switch err := s.giveBack(h.set); err {
	case nil:
		return driver.OutcomeReleased, nil
	case errRemoved:
		return driver.OutcomeGone, nil
	default:
		return driver.OutcomeGone, fmt.Errorf("%w: release of %q: %w", driver.ErrUncertain, h.name, err)
	}
}

// Extend implements driver.Store. Since holds have no leases, it only checks that the hold still
// exists.
func (s *Store) Extend(ctx context.Context, name, token string, ttl time.Duration) (driver.Grant, error) {
	if err := driver.CheckExtend(name, token, ttl, &guarantees); err != nil {
		return driver.Grant{}, err
	}
	end, err := s.beginCall(ctx, storekit.IDOf(name, token))
	if err != nil {
		return driver.Grant{}, err
	}
	defer end()
	if h := s.find(storekit.IDOf(name, token)); h == nil || !s.live(h) {
		return driver.Grant{}, fmt.Errorf("%w: this process does not hold %q", driver.ErrLost, name)
	}
	return driver.Grant{}, nil
}

// Release implements driver.Store. As in PHP's Symfony, it removes the semaphore, so every waiter
// has to open a new one. With NoHash the semaphore stays. For a hold that was lost, Release returns
// OutcomeGone.
func (s *Store) Release(ctx context.Context, name, token string, keep time.Duration) (driver.Outcome, error) {
	if err := driver.CheckRelease(name, token, keep, &guarantees); err != nil {
		return driver.OutcomeGone, err
	}
	end, err := s.beginCall(ctx, storekit.IDOf(name, token))
	if err != nil {
		return driver.OutcomeGone, err
	}
	defer end()
	h := s.find(storekit.IDOf(name, token))
	if h == nil || !s.live(h) || !s.drop(h) {
		return driver.OutcomeGone, nil
	}
	return s.freeLock(h)
}

// Close frees every hold of this store. Calls of Wait return driver.ErrClosed. A second Close does
// nothing.
func (s *Store) Close() error {
	if !s.calls.End() {
		return nil
	}
	s.calls.Work.Wait()
	s.mu.Lock()
	left := slices.Collect(maps.Values(s.holds))
	s.mu.Unlock()
	var failed error
	for _, h := range left {
		if s.live(h) && s.drop(h) {
			_, err := s.freeLock(h)
			failed = errors.Join(failed, err)
		}
	}
	return failed
}
