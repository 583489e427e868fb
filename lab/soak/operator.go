package soak

import (
	"context"
	"fmt"
	"time"
)

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
