package padlock

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/driver/fast"
)

// A Question asks the holder of a name to finish early. It never ends a lock.
type Question struct {
	Name   string
	Fence  uint64 // the holders with this fence or a smaller one are asked
	Reason string
	By     Holder    // the host and process that ask
	At     time.Time // when
}

// A question is kept as a lock with a name of its own (fast.AskName), in the label of its holder. So
// every store that shows holders has questions, and a question ends with its lease.
//
//	asker    takes the lock AskName(name); its label has the fence that the asker saw, and the reason
//	holder   looks at AskName(name) from time to time, if the program called Asked
//
// A holder is asked if its fence is not greater than the one in the question: every later holder has a
// greater one. Another asker finds the lock taken, and the holder is asked already. A question to an
// earlier holder is broken, and replaced; one to a later holder stays.

// questionFor is how long a question lasts, or as long as the store allows. It is much longer than the
// holder takes to look again, even after a short loss of its connection.
const questionFor = time.Minute

// askLook is how often a holder looks for a question.
const askLook = time.Second

// Ask asks who holds name to finish early, and tells it the reason. It returns when the store has the
// question. The question lasts for a minute, and ends with the present holder's lock: the next holder
// is not asked. Repeat Ask to ask for longer. A holder whose program looks (see Asked) knows it within
// a second and a request; another one goes on. If somebody has asked this holder already, Ask returns
// that question.
//
// The error is ErrLost if nobody has the name, or if its holder leaves meanwhile, and ErrHeld if a question
// to an earlier holder cannot be taken away yet. It is errors.ErrUnsupported if the store has no fences or
// cannot show its holders, if its locks end with a process or connection, or if the name has slots.
func (l *Locker) Ask(ctx context.Context, name, reason string) (Question, error) {
	l.demand(ctx)
	q, err := l.ask(ctx, name, reason)
	if err != nil {
		return Question{}, failed(OpAsk, name, callerError(ctx, err))
	}
	return q, nil
}

func (l *Locker) ask(ctx context.Context, name, reason string) (Question, error) {
	g := &l.guarantees
	if !l.canBeAsked() || slotOf(name) >= 0 {
		return Question{}, errors.ErrUnsupported
	}
	state, err := l.admin.Inspect(ctx, name)
	switch {
	case err != nil:
		return Question{}, err
	case !heldNow(state):
		return Question{}, fmt.Errorf("%w: nobody has it now", ErrLost)
	case state.Fence == 0: // another program has it
		return Question{}, errors.ErrUnsupported
	}
	q := Question{Name: name, Fence: state.Fence, Reason: reason, By: Holder{Host: l.host, PID: l.pid}, At: time.Now()}
	r := driver.Request{
		Name: fast.AskName(name), Token: driver.TokenOf(newToken()), TTL: clampTTL(questionFor, g), Detached: g.Bound != driver.BoundToNothing,
		Holder: driver.Holder{Host: l.host, PID: l.pid, Label: q.label()},
	}
	if err := r.Validate(g); err != nil {
		return Question{}, err
	}
	return l.leaveQuestion(ctx, q, r)
}

// leaveQuestion takes the lock that keeps the question q, or returns the question that is there already.
// A question to an earlier holder is broken. Another asker may do the same at the same time, so
// leaveQuestion looks again.
func (l *Locker) leaveQuestion(ctx context.Context, q Question, r driver.Request) (Question, error) {
	for tries := 1; ; tries++ {
		_, held := l.store.Acquire(ctx, r)
		if !errors.Is(held, ErrHeld) {
			return q, held
		}
		there, fence, err := l.question(ctx, q.Name)
		switch {
		case err != nil || there.Fence == q.Fence:
			return there, err
		case there.Fence > q.Fence: // the holder that this caller saw has left, and the next one is asked
			return Question{}, ErrLost
		}
		// If the store cannot break the question, it ends within a minute, and the caller learns of it as
		// of any lock that is held.
		if _, err := l.admin.Break(ctx, r.Name, fence); tries == 3 || errors.Is(err, errors.ErrUnsupported) {
			return Question{}, held
		}
	}
}

// canBeAsked reports whether the store can keep questions.
func (l *Locker) canBeAsked() bool {
	g := &l.guarantees
	return l.admin != nil && l.can(driver.AbilityInspect) && g.Fence != driver.FenceNone && (g.Bound == driver.BoundToNothing || g.Detached)
}

// heldNow reports whether somebody has the name, rather than a cool-down.
func heldNow(state State) bool {
	for i := range state.Holds {
		if !state.Holds[i].Cooling {
			return true
		}
	}
	return false
}

// clampTTL returns the lease nearest to d that the store gives.
func clampTTL(d time.Duration, g *driver.Guarantees) time.Duration {
	if g.MaxTTL > 0 {
		d = min(d, g.MaxTTL)
	}
	return max(d, driver.MinTTL, g.MinTTL)
}

func (q *Question) label() string { return strconv.FormatUint(q.Fence, 10) + " " + q.Reason }

// question returns the question to the holders of name, and the fence of the lock that keeps it. If
// nobody asks, both are zero.
func (l *Locker) question(ctx context.Context, name string) (Question, uint64, error) {
	state, err := l.admin.Inspect(ctx, fast.AskName(name))
	if err != nil {
		return Question{}, 0, err
	}
	state.Name = fast.AskName(name)
	q, _ := QuestionIn(state)
	return q, state.Fence, nil
}

// QuestionIn returns the question that a lock of Locker.List or Inspect keeps, for programs that show
// locks. The name of such a lock is fast.AskName of the name that is asked. ok is false for every other
// lock, and if nobody asks.
func QuestionIn(state State) (q Question, ok bool) {
	name, ok := fast.SplitAsk(state.Name)
	if !ok {
		return Question{}, false
	}
	for i := range state.Holds {
		h := &state.Holds[i]
		fence, reason, found := strings.Cut(h.Label, " ")
		if n, err := strconv.ParseUint(fence, 10, 64); err == nil && found && n > 0 {
			return Question{Name: withoutSlot(name), Fence: n, Reason: reason, By: Holder{Host: h.Host, PID: h.PID}, At: h.Since}, true
		}
	}
	return Question{}, false
}

// asking is what a hold knows about questions.
type asking struct {
	asked    chan struct{} // closed when the holder was asked
	question Question      // may be read after asked is closed
}

// Asked returns a channel that is closed when somebody asks the holder of the lock in ctx to finish
// early; see Locker.Ask. The function of Do, or of an election, selects on it:
//
//	case <-padlock.Asked(ctx):
//		return finishEarly(ctx)
//
// The answer is up to the program: the lock stays held, and is renewed, as long as it works. From the
// first call of Asked on, until the lock is over, this process asks the store once a second. Without a
// call it sends nothing. Asked finds the lock that FenceFrom finds. The channel is nil if there is no
// lock in ctx, or if its store cannot keep questions: see Locker.Ask.
func Asked(ctx context.Context) <-chan struct{} {
	h := lockFrom(ctx)
	if h == nil || !h.locker.canBeAsked() || slotOf(h.name) >= 0 {
		return nil
	}
	h.locker.mu.Lock()
	defer h.locker.unlock()
	if h.asking == nil {
		h.asking = &asking{asked: make(chan struct{})}
		if h.cause == nil {
			go h.lookForQuestions(h.asking)
		}
	}
	return h.asking.asked
}

// QuestionFrom returns the question because of which the channel of Asked is closed. ok is false
// before that.
func QuestionFrom(ctx context.Context) (q Question, ok bool) {
	h := lockFrom(ctx)
	if h == nil {
		return Question{}, false
	}
	h.locker.mu.Lock()
	a := h.asking
	h.locker.unlock()
	if a == nil {
		return Question{}, false
	}
	select {
	case <-a.asked:
		return a.question, true
	default:
		return Question{}, false
	}
}

// lookForQuestions looks until the holder is asked, or h is over.
func (h *hold) lookForQuestions(a *asking) {
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	h.whenOver(cancel)
	for ctx.Err() == nil {
		q, _, err := h.locker.question(ctx, h.name)
		if err == nil && q.Fence != 0 && q.Fence >= h.fencing() {
			a.question = q
			close(a.asked)
			return
		}
		_ = h.locker.sleep(ctx, askLook)
	}
}
