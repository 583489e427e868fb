package quorum

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/storekit"
)

// Rule says how many members must agree.
type Rule int

const (
	// Majority needs more than half of the members: 2 of 3, 3 of 5. Use an odd number of members,
	// at least three; for other numbers Guarantees has a note.
	Majority Rule = iota
	// All needs every member. It asks the members one after the other in the given order, so that
	// one of two competing callers succeeds. Use the same order in every process.
	All
)

// String returns the name of the rule.
func (r Rule) String() string {
	switch r {
	case Majority:
		return "majority"
	case All:
		return "all"
	}
	return fmt.Sprintf("Rule(%d)", int(r))
}

func (r Rule) quorum(n int) int {
	if r == All {
		return n
	}
	return n/2 + 1
}

// Store is a composite store. It is safe for concurrent use if its members are.
type Store struct {
	config
	rule       Rule
	need       int // how many members make a quorum
	members    []*member
	guarantees driver.Guarantees
	calls      storekit.Calls // its Work counts the requests that calls began, too

	mu    sync.Mutex // guards the fields below and all holds; not held during a request
	holds map[storekit.HoldID]*hold
	swept int // how many holds there were after the last sweep
}

var _ interface {
	driver.Store
	driver.Waiter
	driver.Admin
	driver.FenceRaiser
	driver.Reporter
	driver.Places
} = (*Store)(nil)

// Option configures New.
type Option func(*config)

type config struct {
	fences   bool
	patience time.Duration // the timeout of one request to one member; 0 means that it depends on the lease
	clock    driver.Clock
}

// NoFences makes the store grant locks without fences. Then Acquire never writes a fence to the
// members, which saves a round of requests if a member does not answer, and the members need no
// fences either. Without NoFences, every lock has a fence.
func NoFences() Option { return func(c *config) { c.fences = false } }

// MemberTimeout sets how long one request to one member may take, from 1 ms to 1 s; otherwise New
// returns driver.ErrInvalid. If d is 0, the default applies: a twentieth of the lease, but at least
// 25 ms and at most 500 ms. The timeout must be longer than a round trip. A member that does not
// answer may delay a call by a few times this timeout.
func MemberTimeout(d time.Duration) Option { return func(c *config) { c.patience = d } }

// WithClock makes the store measure time with clock. The default is driver.SystemClock, which nil
// stands for too. The members must use the same clock.
func WithClock(clock driver.Clock) Option { return func(c *config) { c.clock = clock } }

// New combines the given stores into one, with fences unless NoFences is given. The new store owns
// its members: Close closes them. Every process must use the same stores and the same rule.
//
// New returns driver.ErrInvalid, and leaves the stores open, in these cases:
//   - stores is empty or one of them is nil;
//   - two stores keep their locks in the same place, as far as driver.SamePlace can know. Examples
//     are the same value twice, two handles on one memory, and two prefixes on one server;
//   - a store has no durable fences or cannot raise them, and NoFences is not given;
//   - the shortest lease of one store is longer than the longest lease of another;
//   - the rule does not exist, or MemberTimeout is out of its range.
func New(rule Rule, stores []driver.Store, opts ...Option) (*Store, error) {
	s := &Store{
		rule: rule, need: rule.quorum(len(stores)), config: config{fences: true},
		holds: make(map[storekit.HoldID]*hold),
	}
	storekit.Apply(&s.config, opts)
	s.clock = cmp.Or(s.clock, driver.SystemClock())
	for i, store := range stores {
		if store == nil {
			return nil, fmt.Errorf("%w: store %d is nil", driver.ErrInvalid, i+1)
		}
		s.members = append(s.members, newMember(i, store))
	}
	if err := s.check(); err != nil {
		return nil, err
	}
	s.calls.Open()
	s.guarantees = s.combine()
	return s, s.checkLeases()
}

// check returns an error if the quorum would not be safe.
func (s *Store) check() error {
	switch {
	case s.rule != Majority && s.rule != All:
		return fmt.Errorf("%w: rule %d does not exist", driver.ErrInvalid, int(s.rule))
	case len(s.members) == 0:
		return fmt.Errorf("%w: a quorum needs stores", driver.ErrInvalid)
	case s.patience != 0 && (s.patience < time.Millisecond || s.patience > time.Second):
		return fmt.Errorf("%w: MemberTimeout is %v, allowed are 1ms to 1s", driver.ErrInvalid, s.patience)
	}
	for i, m := range s.members {
		for _, other := range s.members[:i] {
			if driver.SamePlace(m.store, other.store) {
				return fmt.Errorf("%w: %v is in the same place as %v: both fail together, so they must not have two votes", driver.ErrInvalid, m, other)
			}
		}
		if f := m.g.Fence; s.fences && f != driver.FenceDurable {
			return fmt.Errorf("%w: %v has fences: %v; a quorum needs durable ones, or NoFences", driver.ErrInvalid, m, f)
		}
		if s.fences && m.raiser == nil {
			return fmt.Errorf("%w: %v cannot raise a fence; use NoFences", driver.ErrInvalid, m)
		}
	}
	return nil
}

func (s *Store) checkLeases() error {
	low, high := max(driver.MinTTL, s.guarantees.MinTTL), driver.MaxTTL
	if m := s.guarantees.MaxTTL; m > 0 {
		high = min(high, m)
	}
	if low > high {
		return fmt.Errorf("%w: one store needs leases of at least %v, another allows at most %v; use stores whose leases overlap", driver.ErrInvalid, low, high)
	}
	return nil
}

// Guarantees implements driver.Store. It combines the promises of the members.
func (s *Store) Guarantees() driver.Guarantees { return s.guarantees }

// String returns the rule and the stores.
func (s *Store) String() string {
	var names []string
	for _, m := range s.members {
		names = append(names, m.String())
	}
	return s.rule.String() + " of " + strings.Join(names, ", ")
}

// Close waits for clean-ups that are under way and then closes the members. A clean-up at a member
// that does not answer gets one last try, so Close takes no longer than a few requests. A second
// Close does nothing.
func (s *Store) Close() error {
	if !s.calls.End() {
		return nil
	}
	s.calls.Work.Wait()
	errs := make([]error, len(s.members))
	var closing sync.WaitGroup
	for i, m := range s.members {
		closing.Go(func() { errs[i] = m.store.Close() }) // a member that is away may take seconds
	}
	closing.Wait()
	return errors.Join(errs...)
}

// valid returns an error for a request that must not be sent to any member.
func (s *Store) valid(r *driver.Request) error {
	if err := r.Validate(&s.guarantees); err != nil {
		return err
	}
	switch {
	case r.Shared && !s.guarantees.Shared:
		return fmt.Errorf("shared mode: %w", errors.ErrUnsupported)
	case r.Replaces.Text() != "" && s.guarantees.Bound != driver.BoundToNothing:
		return fmt.Errorf("hand-over of holds bound to a %v: %w", s.guarantees.Bound, errors.ErrUnsupported)
	}
	return nil
}

// timeout is how long one request to one member may take if the lease of the hold is ttl.
func (s *Store) timeout(ttl time.Duration) time.Duration {
	if s.patience != 0 {
		return s.patience
	}
	if ttl <= 0 {
		return maxPatience
	}
	return min(maxPatience, max(minPatience, ttl/20))
}

const (
	minPatience = 25 * time.Millisecond
	maxPatience = 500 * time.Millisecond

	// grace is the extra time for which a call waits for the reply, after the timeout of the
	// request. The member may send the reply just before the timeout ends.
	grace = 10 * time.Millisecond
)
