package holder

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/driver/fast"
	"github.com/padlock-go/padlock/internal/safety"
	"github.com/padlock-go/padlock/storekit/decide"
)

// In a space with askers, the first caller looks for questions as long as it holds the lock, and the
// others ask.

// The operations of questions.
const (
	opLook     = "look"
	opQuestion = "question" // the acquire of the lock that keeps it
	opBreak    = "Break"
)

// lookEvery is how long the holder pauses between two looks, and questionFor is how long a question
// lasts at most.
const (
	lookEvery   = time.Second
	questionFor = time.Minute
)

var questions = fast.AskName(tasks[0])

// asksFor reports whether a question with a fence is for the holder with another one.
func asksFor(question, holder uint64) bool { return question >= holder }

func (r *request) isAsk() bool { return r.op == opLook || r.op == opQuestion || r.op == opBreak }

// asks is what a caller of such a space has heard.
type asks struct {
	looking bool
	looked  time.Duration // when its last look had a result
	sees    uint64        // the greatest fence in the questions that the looks of its hold have found

	seen     uint64 // the fence of the holder that the Ask under way has found
	heard    []byte // what became of the requests of that Ask
	promised uint64 // the fence in the question that the last Ask has left or found
	until    time.Duration
}

// An askClient can look and break.
type askClient struct{ *client }

func (c askClient) Acquire(ctx context.Context, r driver.Request) (driver.Grant, error) {
	if r.Name != questions {
		return c.client.Acquire(ctx, r)
	}
	a := c.ask(ctx, &request{op: opQuestion, name: r.Name, token: r.Token.Text(), acquire: r})
	return a.grant, a.err
}

func (c askClient) Inspect(ctx context.Context, name string) (driver.State, error) {
	a := c.ask(ctx, &request{op: opLook, name: name})
	return a.state, a.err
}

func (c askClient) List(context.Context, string) ([]driver.State, error) {
	return nil, errors.ErrUnsupported
}

func (c askClient) Break(ctx context.Context, name string, seen uint64) (uint64, error) {
	a := c.ask(ctx, &request{op: opBreak, name: name, seen: seen})
	return a.fence, a.err
}

func (a *asks) noteSent(s *theStore, r *request) {
	switch {
	case r.op == opQuestion:
		s.askers[r.token] = a.seen
	case r.who == 0:
		a.looking = true
	}
}

func (a *asks) note(r *request, got *answer, now time.Duration) {
	switch {
	case r.who == 0:
		a.looking, a.looked, a.sees = false, now, max(a.sees, got.fence)
		return
	case r.op == opLook && r.name != questions && got.err == nil:
		a.seen = got.fence
	}
	a.heard = append(a.heard, r.op[0], class(got.err))
}

// applyAsk carries r out.
func (s *theStore) applyAsk(r *request, state *named, now decide.Now) {
	var h *decide.Hold
	switch r.op {
	case opLook:
		r.result.state, r.result.fence = state.Report(r.name, now, time.Now()), s.foundIn(state)
	case opBreak:
		r.result.fence, r.result.err = state.Break(r.seen, now)
	case opQuestion:
		if h, r.result.err = state.Acquire(&r.acquire, now); r.result.err == nil {
			r.result.grant = driver.Grant{Fence: h.Fence, TTL: h.Until.Sub(now.At)}
		}
	}
}

// foundIn returns the fence of the live hold of a name, and that in the question if the name keeps one.
func (s *theStore) foundIn(state *named) uint64 {
	for i := range state.Holds {
		if h := &state.Holds[i]; h.Until > s.now().At {
			if state.name == questions {
				return s.askers[h.Token]
			}
			return h.Fence
		}
	}
	return 0
}

type question struct {
	padlock.Question
	err error
}

func (c *caller) askHolder() {
	a := &c.w.asks[c.who]
	c.call, a.seen, a.heard = callAsk, 0, nil
	c.asks++
	c.start(func() {
		q, err := c.locker.Ask(context.Background(), c.job, "")
		c.answers <- question{q, err}
	})
}

// judgeAnswer looks at the result of Ask.
func (c *caller) judgeAnswer(q question) error {
	w, a := c.w, &c.w.asks[c.who]
	state := w.named(questions)
	live := w.foundIn(state)
	switch {
	case q.err == nil && (a.seen == 0 || !asksFor(live, a.seen) || !asksFor(q.Fence, a.seen)):
		return fmt.Errorf("Ask returns a question to the holder with fence %d, but it has found the fence %d, and the store has a question with fence %d", q.Fence, a.seen, live)
	case q.err == nil:
		a.promised, a.until = live, until(state.Holds[len(state.Holds)-1].Until)
		return nil
	case strings.ContainsAny(string(a.heard), "?u"):
		return nil
	case errors.Is(q.err, driver.ErrLost) && (a.seen == 0 || w.named(c.job).Fence > a.seen): // its holder has left
		return nil
	}
	return fmt.Errorf("Ask returns %w, and it has heard %s", q.err, a.heard)
}

// judgeAsked looks at the holder, which looks for questions.
func (c *caller) judgeAsked() error {
	w, a := c.w, &c.w.asks[c.who]
	if w.space.askers == 0 || c.who > 0 || c.lock == nil || c.call == opRelease || c.over || c.closing {
		return nil
	}
	fence, shown := c.lock.Fence(), false
	select {
	case <-c.questions:
		shown = true
	default:
	}
	q, _ := padlock.QuestionFrom(c.ctx)
	live, now := w.foundIn(w.named(questions)), w.at()
	switch {
	case shown && !asksFor(a.sees, fence):
		return safety.ErrBroken("the holder with fence %d is shown a question with fence %d", fence, q.Fence)
	case !shown && asksFor(a.sees, fence):
		return fmt.Errorf("a look has found a question, and the holder is not asked")
	case shown && q.Fence != a.sees:
		return fmt.Errorf("the question has fence %d, and a look has found %d", q.Fence, a.sees)
	case !shown && !a.looking && now > a.looked+lookEvery:
		return fmt.Errorf("the holder has not looked since %v", a.looked)
	}
	for _, asker := range w.asks {
		if asksFor(asker.promised, fence) && now < asker.until && !asksFor(live, fence) {
			return fmt.Errorf("Ask has left a question to the holder with fence %d, and the store has one with fence %d", fence, live)
		}
	}
	for _, h := range w.named(questions).Holds {
		if until(h.Until) > now+questionFor+time.Microsecond {
			return fmt.Errorf("a question lasts until %v", until(h.Until))
		}
	}
	return nil
}

// askKey writes what c knows of questions.
func (c *caller) askKey(k *key) {
	w, a := c.w, &c.w.asks[c.who]
	if c.who > 0 {
		k.add(fmt.Sprint(k.fence(a.seen), string(a.heard), k.fence(a.promised), max(a.until-w.at(), 0)))
		return
	}
	shown := false
	select {
	case <-c.questions:
		shown = true
	default:
	}
	k.add(fmt.Sprint(shown, c.lock != nil && asksFor(a.sees, c.lock.Fence()), a.looking, w.at()-a.looked))
}
