package drivertest

import (
	"context"
	"errors"
	"os"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/driver/fast"
)

// client stands for one process, and calls the methods of its store. Some rules hold for the result
// of every call, in all cases. To check these rules, client passes each result to the watch
// functions; see testCase.watch.
type client struct {
	c     *check
	store driver.Store
}

// ability returns the interface T of s or of a store inside it, even if the store lacks it. The
// caller has checked that there is one.
func ability[T any](s driver.Store) T {
	t, _ := inside[T](s)
	return t
}

func inside[T any](s driver.Store) (t T, ok bool) {
	for s != nil {
		if t, ok = s.(T); ok {
			break
		}
		w, _ := s.(interface{ Unwrap() driver.Store })
		if w == nil {
			break
		}
		s = w.Unwrap()
	}
	return t, ok
}

func implements[T any](s driver.Store) bool {
	_, ok := inside[T](s)
	return ok
}

// call is one request with its result.
type call struct {
	op     string
	tokens []string
	grant  driver.Grant
	hold   bool // the grant is a hold or a reservation, so its fields are valid
	err    error
}

// inTime is the rule that a method breaks if its call never returns.
const inTime = "Every method except Wait returns within MaxSilence, even if ctx never ends."

// pending is a call that has not returned yet.
type pending struct {
	op    string
	at    []uintptr // for place
	began time.Time
	looks int // how often awaitCase has seen it
}

// begin is called at the beginning of every method but Wait. The function that it returns is called
// at the end.
func (cl *client) begin(op string, err *error) (end func()) {
	c, p := cl.c, &pending{op: op, at: callers(), began: time.Now()}
	c.noteProgress()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pending[p] = true
	return func() {
		took := time.Since(p.began)
		if took >= driver.MaxSilence/4 && (isAnswer(*err) || isSilence(*err)) {
			c.run.mu.Lock()
			c.run.slowAt = time.Now()
			c.run.mu.Unlock()
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		switch delete(c.pending, p); {
		case isAnswer(*err):
			c.slowest = max(c.slowest, took)
		case isSilence(*err):
			c.unheard = max(c.unheard, took)
		}
	}
}

// ask is like begin for a method that returns no grant. At the end, it passes the error on to the
// watch functions.
func (cl *client) ask(op string, err *error, tokens ...string) (end func()) {
	began := cl.begin(op, err)
	return func() {
		began()
		cl.saw(&call{op: op, tokens: tokens, err: *err})
	}
}

func (cl *client) saw(k *call) {
	cl.c.noteProgress()
	for i := range table {
		w := &table[i]
		if w.watch == nil {
			continue
		}
		if seen := w.watch(cl.c.run, k); seen != "" {
			cl.c.watchFailure(w, k.op+" "+seen)
		}
	}
}

func (c *check) watchFailure(w *testCase, seen string) {
	c.run.mu.Lock()
	defer c.run.mu.Unlock()
	if len(c.watched[w.name]) < 3 {
		c.watched[w.name] = append(c.watched[w.name], Failure{w.name, w.clause, seen + ", in case " + c.k.name, place()})
	}
}

// forget releases token at the end of the case.
func (cl *client) forget(name, token string) {
	cl.c.later(func() {
		if cl.c.isSilent() {
			return
		}
		ctx, cancel := context.WithTimeout(context.Background(), cl.c.patience)
		defer cancel()
		cl.store.Release(ctx, name, token, 0)
	})
}

func (cl *client) Acquire(ctx context.Context, r driver.Request) (g driver.Grant, err error) {
	defer cl.begin("Acquire", &err)()
	g, err = cl.store.Acquire(ctx, r)
	if !errors.Is(err, driver.ErrHeld) && !errors.Is(err, driver.ErrInvalid) {
		cl.forget(r.Name, r.Token.Text())
	}
	if g.Bound != nil {
		cl.c.boundTo(g.Bound)
	}
	cl.saw(&call{"Acquire", []string{r.Token.Text(), r.Replaces.Text()}, g, err == nil, err})
	return g, err
}

func (cl *client) Extend(ctx context.Context, name, token string, ttl time.Duration) (g driver.Grant, err error) {
	defer cl.begin("Extend", &err)()
	g, err = cl.store.Extend(ctx, name, token, ttl)
	cl.saw(&call{"Extend", []string{token}, g, err == nil, err})
	return g, err
}

func (cl *client) Release(ctx context.Context, name, token string, keep time.Duration) (o driver.Outcome, err error) {
	defer cl.ask("Release", &err, token)()
	return cl.store.Release(ctx, name, token, keep)
}

// Wait calls Wait without a time limit.
func (cl *client) Wait(ctx context.Context, r driver.Request, reserve bool) (driver.Grant, error) {
	began := time.Now()
	g, err := ability[driver.Waiter](cl.store).Wait(ctx, r, reserve)
	if err != nil || handed(g) {
		cl.forget(r.Name, r.Token.Text())
	}
	if isSilence(err) {
		cl.c.hadNoAnswer(time.Since(began))
	}
	cl.saw(&call{"Wait", []string{r.Token.Text()}, g, err == nil && handed(g), err})
	return g, err
}

func (cl *client) Pass(ctx context.Context, token string, next driver.Request) (o driver.Outcome, g driver.Grant, err error) {
	defer cl.begin("Pass", &err)()
	o, g, err = ability[fast.Passer](cl.store).Pass(ctx, token, next)
	if !errors.Is(err, driver.ErrInvalid) {
		cl.forget(next.Name, next.Token.Text())
	}
	cl.saw(&call{"Pass", []string{token, next.Token.Text()}, g, err == nil && handed(g), err})
	return o, g, err
}

func (cl *client) Convert(ctx context.Context, r driver.Request) (g driver.Grant, err error) {
	defer cl.begin("Convert", &err)()
	g, err = ability[driver.Converter](cl.store).Convert(ctx, r)
	cl.saw(&call{"Convert", []string{r.Token.Text()}, g, err == nil, err})
	return g, err
}

func (cl *client) Inspect(ctx context.Context, name string) (s driver.State, err error) {
	defer cl.ask("Inspect", &err)()
	return ability[driver.Admin](cl.store).Inspect(ctx, name)
}

func (cl *client) List(ctx context.Context, prefix string) (s []driver.State, err error) {
	defer cl.ask("List", &err)()
	return ability[driver.Admin](cl.store).List(ctx, prefix)
}

func (cl *client) Break(ctx context.Context, name string, seenFence uint64) (f uint64, err error) {
	defer cl.ask("Break", &err)()
	return ability[driver.Admin](cl.store).Break(ctx, name, seenFence)
}

func (cl *client) RaiseFence(ctx context.Context, name, token string, fence uint64) (err error) {
	defer cl.ask("RaiseFence", &err, token)()
	return ability[driver.FenceRaiser](cl.store).RaiseFence(ctx, name, token, fence)
}

func (cl *client) File(name, token string) (f *os.File, err error) {
	defer cl.ask("File", &err, token)()
	return ability[fast.FileSharer](cl.store).File(name, token)
}

func (cl *client) StoreID(ctx context.Context) (id string, err error) {
	defer cl.ask("StoreID", &err)()
	return ability[driver.Places](cl.store).StoreID(ctx)
}

func (cl *client) Record(ctx context.Context, name string, records []fast.Record) (err error) {
	defer cl.ask("Record", &err)()
	return ability[fast.Recorder](cl.store).Record(ctx, name, records)
}

func (cl *client) Records(ctx context.Context, name string) (r []fast.Record, err error) {
	defer cl.ask("Records", &err)()
	return ability[fast.Recorder](cl.store).Records(ctx, name)
}

func (cl *client) Recorded(ctx context.Context, prefix string, most int) (all map[string][]fast.Record, err error) {
	defer cl.ask("Recorded", &err)()
	return ability[fast.Recorder](cl.store).Recorded(ctx, prefix, most)
}

func (cl *client) Status(ctx context.Context) (f []driver.Finding, err error) {
	defer cl.ask("Status", &err)()
	return ability[driver.Reporter](cl.store).Status(ctx)
}

// handed reports whether the result of Wait is a reservation or a hold.
func handed(g driver.Grant) bool { return g.TTL > 0 }
