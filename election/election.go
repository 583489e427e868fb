package election

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"time"

	"github.com/padlock-go/padlock"
)

var (
	// ErrNotLeader means that this candidate does not lead.
	ErrNotLeader = errors.New("election: this candidate is not the leader")
	// ErrNoLeader means that nobody leads at the moment.
	ErrNoLeader = errors.New("election: there is no leader")
	// ErrResigned is what context.Cause returns for the context of the leader after Resign was
	// called.
	ErrResigned = errors.New("election: the leader has resigned")
	// ErrRunning means that Run was called while another Run of the same Election is under way.
	ErrRunning = errors.New("election: Run is under way already")
	// ErrStop, returned or wrapped by the function, ends Run. Run returns the function's error.
	ErrStop = errors.New("election: stop")
)

// Defaults of the options.
const (
	DefaultBackOff    = time.Second
	DefaultMaxBackOff = 30 * time.Second
)

// An Election is one candidate in the election of the leader for a name. Its methods are safe for
// concurrent use.
type Election struct {
	locker *padlock.Locker
	name   string
	set    settings

	mu      sync.Mutex
	running bool
	trouble error // why the last try to become the leader failed; nil if it did not
	term    *term // nil unless this candidate leads
}

// A term is the time from one election of this candidate to the moment when it stops leading.
type term struct {
	lock   *padlock.Lock
	resign context.CancelCauseFunc // ends the context of the function
	over   chan struct{}           // closed when the lock is released
}

// New returns a candidate in the election for name. All candidates with the same store and the same
// name elect one leader among them. New sends no request.
//
// New panics if l is nil.
func New(l *padlock.Locker, name string, opts ...Option) *Election {
	if l == nil {
		panic("election: the Locker is nil")
	}
	e := &Election{locker: l, name: name}
	e.set = settings{backOff: DefaultBackOff, maxBackOff: DefaultMaxBackOff, onError: func(error) {}}
	for _, o := range opts {
		if o != nil {
			o(&e.set)
		}
	}
	e.set.maxBackOff = max(e.set.backOff, e.set.maxBackOff)
	if e.set.ranked {
		LockOptions(padlock.Label(rankLabel + strconv.Itoa(e.set.rank)))(&e.set)
	}
	return e
}

// Run waits until this candidate is the leader, and then calls the function lead. When lead has
// returned, however long that takes, Run releases the lock. It releases the lock even if lead
// panics.
//
// The context of lead ends when ctx ends, when the lock is lost, or after Resign. context.Cause
// tells which.
//
// The result of lead decides how Run continues:
//
//	nil, before its context ended     Run returns nil: the work is finished.
//	nil, after its context ended      Run campaigns again.
//	the error of its ended context    Run campaigns again.
//	an error that is ErrStop          Run returns this error.
//	any other error                   Run calls OnError, and campaigns again.
//
// Before Run campaigns again, it waits for the back-off. The back-off grows from BackOff to
// MaxBackOff, with jitter. It starts again from BackOff when lead has run for longer than
// MaxBackOff. If ctx has ended, Run returns nil and does not campaign again. If lead then
// returns another error than that of its context, OnError gets it.
//
// If lead returns nil, the release may show that the lock was already lost. Then another candidate
// may have led at the same time, and the work does not count as finished. Run calls OnError and
// campaigns again.
//
// If lead returns nil and the store cannot be reached for the release, the work is finished,
// because the lease lasted until lead had returned. Run calls OnError and returns nil. The Locker
// tries again to release the lock.
//
// If the store cannot be reached for a campaign, Run calls OnError and campaigns again. Run returns
// the errors of a campaign that would come again at each try: padlock.ErrInvalid,
// padlock.ErrClosed, padlock.ErrAlreadyHeld and errors.ErrUnsupported. If another Run of this
// Election is under way, Run returns ErrRunning.
func (e *Election) Run(ctx context.Context, lead func(ctx context.Context) error) error {
	if lead == nil {
		panic("election: the function is nil")
	}
	if !e.begin() {
		return ErrRunning
	}
	defer e.end()
	pause := pacer{first: e.set.backOff, most: e.set.maxBackOff}
	var ran time.Duration // the last run of the function
	timed := func(ctx context.Context) error {
		began := time.Now()
		defer func() { ran = time.Since(began) }()
		return lead(ctx)
	}
	for {
		led, wait, err := e.campaign(ctx, timed)
		switch {
		case errors.Is(err, errFinished):
			return nil
		case errors.Is(err, ErrStop):
			return err
		case ctx.Err() != nil:
			if led && err != nil {
				e.set.onError(err) // the error of the function
			}
			return nil
		case final(err) && !led:
			return err
		case err != nil:
			e.keepError(err, led)
			wait = true
		}
		if led && ran > e.set.maxBackOff {
			pause.reset()
		}
		if wait && !sleep(ctx, pause.nextPause()) {
			return nil
		}
	}
}

// errFinished means that the function returned nil although its context had not ended.
var errFinished = errors.New("election: the work is finished")

// final reports whether Run would get the same error again if it went on.
func final(err error) bool {
	return errors.Is(err, padlock.ErrInvalid) || errors.Is(err, padlock.ErrClosed) ||
		errors.Is(err, padlock.ErrAlreadyHeld) || errors.Is(err, errors.ErrUnsupported)
}

func (e *Election) begin() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.running {
		return false
	}
	e.running, e.trouble = true, nil
	return true
}

func (e *Election) end() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.running = false
}

// keepError keeps an error for Ready, and passes it to OnError.
func (e *Election) keepError(err error, led bool) {
	e.mu.Lock()
	if !led {
		e.trouble = err
	}
	e.mu.Unlock()
	e.set.onError(err)
}

// campaign waits until this candidate is the leader, and then calls the function lead. It returns
// wasLeader if the function was called. If it returns backOff, the caller must wait before it
// campaigns again, so that other candidates can become the leader.
func (e *Election) campaign(ctx context.Context, lead func(ctx context.Context) error) (wasLeader, backOff bool, err error) {
	lock, err := e.take(ctx)
	if err != nil {
		return false, true, err
	}
	if lock.Shared() || lock.Slot() >= 0 {
		lock.Release()
		return false, false, fmt.Errorf("%w: election: with Shared or Slots, several candidates would lead", padlock.ErrInvalid)
	}
	inside, resign := context.WithCancelCause(lock.Context())
	stop := context.AfterFunc(ctx, func() { resign(context.Cause(ctx)) })
	t := &term{lock: lock, resign: resign, over: make(chan struct{})}
	e.setTerm(t)
	if e.set.heeds {
		go e.heed(inside, resign)
	}
	defer func() { // runs even if the caller's function panics or calls runtime.Goexit
		stop()
		ended := context.Cause(inside)
		released := lock.Release()
		e.setTerm(nil)
		close(t.over)
		resign(nil)
		switch {
		case err == nil && ended == nil && lost(released): // the function could not notice that
			err = fmt.Errorf("election: the work was not protected until its end: %w", released)
		case err == nil && ended == nil:
			err = errFinished
			if released != nil {
				e.set.onError(fmt.Errorf("election: the work is finished: %w", released))
			}
		case errors.Is(err, ErrStop): // Run returns err, even if err wraps the error of the context too
		case ended != nil && (errors.Is(err, context.Canceled) || errors.Is(err, ended)):
			err = nil // the function returned the error of its context
		}
		backOff = ended != nil
	}()
	return true, false, lead(inside)
}

// lost reports whether the error of a Release or a Check means that the lock had ended before that
// call.
func lost(err error) bool {
	return errors.Is(err, padlock.ErrLost) || errors.Is(err, padlock.ErrExpired) ||
		errors.Is(err, padlock.ErrReleased) || errors.Is(err, padlock.ErrMaxHold)
}

// take waits for the lock. After a failed campaign, take first makes one try without waiting. If
// another process holds the lock, the store works again, and Ready no longer reports the failure.
// Without this try, Ready would report the failure until the end of the present term.
func (e *Election) take(ctx context.Context) (*padlock.Lock, error) {
	e.mu.Lock()
	failed := e.trouble != nil
	e.mu.Unlock()
	if failed {
		lock, err := e.locker.Acquire(ctx, e.name, append(e.set.lock, padlock.Wait(0))...)
		if !errors.Is(err, padlock.ErrHeld) || errors.Is(err, padlock.ErrUncertain) {
			return lock, err
		}
		e.mu.Lock()
		e.trouble = nil
		e.mu.Unlock()
	}
	if e.set.ranked {
		waiting, taken := context.WithCancel(ctx)
		defer taken()
		go e.askLesser(waiting)
	}
	return e.locker.Acquire(ctx, e.name, append(e.set.lock, padlock.Wait(1<<63-1))...)
}

func (e *Election) setTerm(t *term) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.term = t
	if t != nil {
		e.trouble = nil
	}
}

func (e *Election) current() *term {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.term
}

// Resign makes this candidate give up the lead. It ends the context of the function that leads.
// Then it waits until that function has returned and the lock is released, or until ctx ends. Run
// waits for the back-off before it campaigns again, so that another candidate can take over. If
// this candidate does not lead, Resign returns ErrNotLeader.
//
// The function that leads must not call Resign, because Resign would wait for the function itself.
// To give up the lead, the function returns.
func (e *Election) Resign(ctx context.Context) error {
	t := e.current()
	if t == nil {
		return ErrNotLeader
	}
	t.resign(ErrResigned)
	select {
	case <-t.over:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// IsLeader returns nil if this candidate leads. It asks the store. ErrNotLeader means that the
// candidate does not lead. Any other error means that it is unknown who leads. The reply may be
// outdated when it arrives. So the work of the leader must rely on the context of the function and
// on the fence.
func (e *Election) IsLeader(ctx context.Context) error {
	t := e.current()
	if t == nil {
		return ErrNotLeader
	}
	err := t.lock.Check(ctx)
	if lost(err) {
		return fmt.Errorf("%w: %w", ErrNotLeader, err)
	}
	return err
}

// Leads reports whether this candidate leads, by this process's own clock. It sends no request; see
// IsLeader. A process that goes on after a pause may see its context end a moment late, because
// the runtime runs timers in turn. Leads looks at the clock, so ask it before each step that must
// not come late.
func (e *Election) Leads() bool {
	t := e.current()
	return t != nil && t.lock.Remaining() > 0
}

// A pacer makes the pauses between campaigns.
type pacer struct {
	first, most, last time.Duration
}

func (p *pacer) reset() { p.last = 0 }

// nextPause doubles the step, up to the longest pause. It returns a random pause between half the
// step and the whole step.
func (p *pacer) nextPause() time.Duration {
	p.last = min(p.most, max(p.first, 2*p.last))
	return p.last/2 + rand.N(p.last/2+1)
}
