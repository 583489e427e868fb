package soak

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/padlock-go/padlock"
)

// askedNames is how many names have long holds whose holders are asked to leave.
const askedNames = 2

func askedName(prefix string, i int) string { return fmt.Sprintf("%sasked:%d", prefix, i) }

// manner is what a holder does about questions.
type manner int

const (
	neverLooks manner = iota
	leaves            // it ends its work when it is asked
	stays             // it notes the question and works on
	manners
)

// drawQuestions draws whether the caller of a turn asks the holder before it waits, and whether it
// looks for questions when it has the lock.
func (d *dice) drawQuestions(t *turn) {
	if d.load.Questions == 0 {
		return
	}
	asks, looks, how := d.percent(d.load.Questions), d.percent(d.load.Questions), 1+d.IntN(int(manners)-1)
	if t.own || t.several || t.slots > 0 {
		return
	}
	if t.asks = asks; looks && !t.convert && !t.handOff {
		t.manner = manner(how)
	}
}

// question asks the holder of a name to leave. The reason is a number, by which the holder's event
// names the question. The worker may be killed meanwhile.
func (w *worker) question(ctx context.Context, name string) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	w.holds++
	e := Event{Op: Questioning, Name: name, Other: w.first | w.holds, Call: clockNow()}
	w.log(e)
	q, err := w.locker.Ask(ctx, name, "q"+strconv.FormatInt(e.Other, 10))
	e.Op, e.At, e.Other, e.Fence, e.Err = Questioned, clockNow(), questionNumber(q.Reason), q.Fence, class(err)
	w.log(e)
}

// questionNumber returns the number in a reason, or 0. A server of the HTTP API adds the client.
func questionNumber(reason string) int64 {
	reason, _, _ = strings.Cut(strings.TrimPrefix(reason, "q"), " ")
	n, _ := strconv.ParseInt(reason, 10, 64)
	return n
}

// pauseForHold is the work of a holder. A holder that looks for questions notes the first one.
func (w *worker) pauseForHold(h *held) {
	if h.manner == neverLooks {
		pause(h.Context(), h.hold)
		return
	}
	w.log(Event{Op: Looks, Name: h.Name(), Hold: h.id})
	begun := clockNow()
	working, stop := context.WithTimeout(h.Context(), h.hold)
	defer stop()
	select {
	case <-working.Done():
		return
	case <-padlock.Asked(h.Context()):
	}
	q, _ := padlock.QuestionFrom(h.Context())
	w.log(Event{Op: Told, Name: h.Name(), Hold: h.id, Other: questionNumber(q.Reason), Fence: q.Fence})
	if h.manner == stays {
		pause(h.Context(), h.hold-time.Duration(clockNow()-begun))
	}
}

// discuss takes names that are held for long until ctx ends. Most of those who wait ask the holder to
// leave, some of them again and again.
func (w *worker) discuss(ctx context.Context) {
	for ctx.Err() == nil {
		t := turn{
			name: askedName(w.dice.load.Prefix, w.dice.IntN(askedNames)), ttl: w.dice.draw().ttl, wait: longWait,
			hold: w.dice.between(0, 2500*time.Millisecond), manner: manner(w.dice.IntN(int(manners))), asks: w.dice.percent(70),
		}
		if w.dice.percent(20) {
			t.cancel = w.dice.between(1, time.Second)
			w.question(ctx, t.name)
		}
		if h := w.take(ctx, t); h != nil {
			w.change(h)
			w.release(h)
		}
	}
}

// operate asks the holders of all kinds of names from outside, as an operator does, until the
// function stop is called.
func (r *Run) operate(ctx context.Context) (stop func(), err error) {
	if r.Load.Questions == 0 {
		return func() {}, nil
	}
	locker, err := r.openAtEnd(ctx)
	if err != nil {
		return nil, fmt.Errorf("the operator: %w", err)
	}
	o := r.order(engine, 0, "")
	w := newWorker(o, 0, r.monitor, locker)
	asking, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for asking.Err() == nil {
			names := []string{w.dice.name(), askedName(r.Load.Prefix, w.dice.IntN(askedNames)), newestName(r.Load.Prefix, w.dice.IntN(newestNames))}
			w.question(asking, names[w.dice.IntN(len(names))])
			pause(asking, w.dice.between(0, 200*time.Millisecond))
		}
	}()
	return func() {
		cancel()
		<-ended
		closing, done := context.WithTimeout(context.WithoutCancel(ctx), openPatience)
		defer done()
		if err := locker.Close(closing); err != nil {
			r.monitor.Log(Event{Op: Broken, Worker: engine, At: clockNow(), Err: "I7 Close of the operator: " + err.Error()})
		}
	}, nil
}
