package padlocktest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/padlock-go/padlock"
)

// Request is a kind of request that a Locker sends to its store. Several kinds can be combined:
// Acquire|Extend.
type Request int

// The kinds of requests.
const (
	Acquire Request = 1 << iota // from Acquire, TryAcquire, Do and Adopt; a call that waits may send several
	Extend                      // from Extend and Check, and for each renewal
	Release                     // from Release, and for each clean-up
	Convert                     // from Promote and Demote
	Wait                        // from a call that waits; all waiters of a Locker share one request
	All     Request = 1<<iota - 1
)

// String returns the kinds, with a "|" between them.
func (r Request) String() string {
	var kinds []string
	for i, kind := range []string{"Acquire", "Extend", "Release", "Convert", "Wait"} {
		if r&(1<<i) != 0 {
			kinds = append(kinds, kind)
		}
	}
	if r&^All != 0 || r == 0 {
		kinds = append(kinds, fmt.Sprintf("Request(%d)", int(r&^All)))
	}
	return strings.Join(kinds, "|")
}

// Always can be given to Fail and LoseReplies as the number of requests. It means all requests
// until Heal is called.
const Always = -1

// fault is a delay, an error or a lost reply that the test has ordered for some requests.
type fault struct {
	kind  Request
	left  int // how many times; a negative number means always
	delay time.Duration
	err   error
	after bool // the request is carried out before err is returned

	silent bool // the store does not answer; see Down
}

// Fail makes the next n requests of a kind fail with err. The store does nothing for these
// requests. If err is ErrUnavailable, the Locker knows that nothing was done. If err is
// ErrUncertain, or an error that package padlock does not know, the Locker must assume that the
// request may have been carried out.
func (s *Script) Fail(kind Request, n int, err error) {
	s.addFault(fault{kind: kind, left: n, err: err})
}

// LoseReplies makes the store carry out the next n requests of a kind and lose the replies.
func (s *Script) LoseReplies(kind Request, n int) {
	err := errors.Join(padlock.ErrUncertain, errors.New("padlocktest: the Script lost the reply"))
	s.addFault(fault{kind: kind, left: n, err: err, after: true})
}

// Delay makes requests of a kind slow: each of them reaches the store only after the time d. The
// effect lasts until Heal is called. A request fails if its context ends during the delay.
func (s *Script) Delay(kind Request, d time.Duration) {
	s.addFault(fault{kind: kind, left: Always, delay: d})
}

// Down makes the store silent until Heal, like a Redis server whose machine is gone. The first
// request gets no reply: it fails after three seconds, or when its context ends, with ErrUncertain.
// Then the connection counts as broken. All later requests fail in the attempt to connect, after
// three seconds or when their contexts end, with ErrUnavailable. So a call such as TryAcquire
// returns ErrUnavailable after three to six seconds, and at first ErrUncertain too. In a test that
// does not run in a synctest bubble, these are seconds of the wall clock. For a store that refuses
// requests at once, use Fail with ErrUnavailable.
func (s *Script) Down() {
	s.addFault(fault{kind: All, left: Always, silent: true})
}

// silence is how long a request waits for a server that is silent.
const silence = 3 * time.Second

// answerNothing fails as a request to a silent server does.
func (s *Script) answerNothing(ctx context.Context) error {
	s.mu.Lock()
	why := padlock.ErrUncertain
	if s.broken {
		why = padlock.ErrUnavailable
	}
	s.mu.Unlock()
	err := pause(ctx, silence)
	if err == nil {
		err = errors.New("padlocktest: the Script is silent")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.broken = len(s.faults) > 0 // Heal may have come meanwhile
	return errors.Join(why, err)
}

// Heal ends the trouble that Fail, LoseReplies, Delay and Down made.
func (s *Script) Heal() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults, s.broken = nil, false
}

// Requests returns the number of requests of a kind so far.
func (s *Script) Requests(kind Request) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for of, count := range s.requests {
		if of&kind != 0 {
			n += count
		}
	}
	return n
}

func (s *Script) addFault(p fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = append(s.faults, &p)
}

// carryOut carries out a request by calling serve. It injects the faults that the test has ordered
// for requests of this kind.
func (s *Script) carryOut(ctx context.Context, kind Request, serve func(context.Context) error) error {
	var lost error
	for _, p := range s.take(kind) {
		if p.silent {
			return s.answerNothing(ctx)
		}
		if p.delay > 0 {
			if err := pause(ctx, p.delay); err != nil {
				return errors.Join(padlock.ErrUncertain, err)
			}
		}
		if p.err != nil && !p.after {
			return p.err
		}
		lost = errors.Join(lost, p.err)
	}
	err := serve(ctx)
	if lost != nil {
		return lost
	}
	return err
}

// take returns the faults that apply to one request of a kind: all delays up to the first failure
// or silence, and that.
func (s *Script) take(kind Request) []fault {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests[kind]++
	var due []fault
	for _, p := range s.faults {
		if p.kind&kind == 0 || p.left == 0 {
			continue
		}
		due = append(due, *p)
		if p.left > 0 {
			p.left--
		}
		if p.err != nil || p.silent {
			break
		}
	}
	return due
}

func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
