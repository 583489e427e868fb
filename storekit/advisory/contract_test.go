package advisory_test

import (
	"context"
	"crypto/rand"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/drivertest"
	"github.com/padlock-go/padlock/storekit/advisory"
)

// A store is a Store with its dialect.
type store struct {
	*advisory.Store[*session]
	dialect *dialect
}

func open(srv *server) *store {
	d := &dialect{srv: srv}
	return &store{openOn(d), d}
}

func openOn(d advisory.Dialect[*session]) *advisory.Store[*session] {
	c := advisory.Config{LossDelay: time.Second}
	c.Guarantees = c.Promises("fake-advisory")
	return advisory.New(d, c)
}

// The kit keeps the contract on a server without faults of its own, with connections that are cut
// and replies that are lost. After a lost reply, the session goes on until it is settled.
func TestContract(t *testing.T) { synctest.Test(t, contract) }

func contract(t *testing.T) {
	srv := newServer()
	for _, f := range drivertest.Check(drivertest.Harness{
		Open:      func(context.Context) (driver.Store, error) { return open(srv), nil },
		Anonymous: true,
		Slow:      true,
		CutConnection: func(s driver.Store) error {
			s.(*store).dialect.cut()
			return nil
		},
		LoseReply: func(s driver.Store) error {
			d := s.(*store).dialect
			d.mu.Lock()
			defer d.mu.Unlock()
			d.loses = true
			return nil
		},
		Logf: t.Logf,
	}) {
		t.Error(f)
	}
}

func request(name string) driver.Request {
	return driver.Request{Name: name, Token: driver.TokenOf(rand.Text()), TTL: time.Minute}
}

// The reply to a release is lost, and the session goes on with the lock of another name. The next
// release of the same token does not say that the lock is free before that session has ended.
func TestReleaseLost(t *testing.T) { synctest.Test(t, releaseLost) }

func releaseLost(t *testing.T) {
	srv := newServer()
	a, b := open(srv), open(srv)
	defer a.Close()
	defer b.Close()
	r, other := request("job"), request("other")
	for _, r := range []driver.Request{r, other} {
		if _, err := a.Acquire(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	a.dialect.loses = true
	if _, err := a.Release(t.Context(), "job", r.Token.Text(), 0); !errors.Is(err, driver.ErrUncertain) {
		t.Errorf("Release whose reply was lost: %v", err)
	}
	if _, err := b.Acquire(t.Context(), request("other")); !errors.Is(err, driver.ErrHeld) {
		t.Errorf("the session goes on: %v", err)
	}
	if out, err := a.Release(t.Context(), "job", r.Token.Text(), 0); out != driver.OutcomeGone || err != nil {
		t.Errorf("Release again: %v, %v", out, err)
	}
	if _, err := b.Acquire(t.Context(), request("other")); err != nil {
		t.Errorf("Release has settled the session: %v", err)
	}
	if _, err := a.Extend(t.Context(), "other", other.Token.Text(), 0); !errors.Is(err, driver.ErrLost) {
		t.Errorf("the other hold ended with the connection: %v", err)
	}
}

// Two callers of one process ask for a lock at the same time, while all connections are busy. They
// ask in two sessions, because the server would grant the lock twice to one session.
func TestTwoTriesAtOnce(t *testing.T) { synctest.Test(t, twoTriesAtOnce) }

func twoTriesAtOnce(t *testing.T) {
	s := open(newServer())
	defer s.Close()
	began, resume := make(chan struct{}), make(chan struct{})
	last := request("job")
	s.dialect.before = func(r *driver.Request) {
		if r.Token.Text() != last.Token.Text() {
			began <- struct{}{}
			<-resume
		}
	}
	results := map[string]chan error{}
	for _, name := range []string{"job", "b", "c", "d"} { // one for each connection
		result := make(chan error, 1)
		results[name] = result
		go func() {
			_, err := s.Acquire(t.Context(), request(name))
			result <- err
		}()
		<-began
	}
	if _, err := s.Acquire(t.Context(), last); err != nil {
		t.Errorf("the second caller: %v", err)
	}
	close(resume)
	for name, result := range results {
		if err := <-result; (name == "job") != errors.Is(err, driver.ErrHeld) {
			t.Errorf("Acquire of %q, whose request came later: %v", name, err)
		}
	}
}

// A wait whose statement goes on does not keep its caller, and ends together with its connection.
// Close waits for that.
func TestStatementThatGoesOn(t *testing.T) { synctest.Test(t, statementThatGoesOn) }

func statementThatGoesOn(t *testing.T) {
	srv := newServer()
	a, b := open(srv), open(srv)
	defer a.Close()
	b.dialect.deaf = true
	r := request("job")
	if _, err := a.Acquire(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	results := make(chan error, 2)
	for _, ctx := range []context.Context{ctx, t.Context()} {
		go func() {
			_, err := b.Wait(ctx, request("job"), true)
			results <- err
		}()
	}
	synctest.Wait()
	cancel()
	synctest.Wait()
	select {
	case err := <-results:
		if !errors.Is(err, context.Canceled) {
			t.Errorf("the wait that was canceled: %v", err)
		}
	default:
		t.Error("the caller of a wait that was canceled still waits")
	}
	if n := srv.waiting("job"); n != 2 {
		t.Errorf("%d statements wait, and nothing has ended them", n)
	}
	b.Close()
	if err := <-results; !errors.Is(err, driver.ErrClosed) {
		t.Errorf("the wait that Close ended: %v", err)
	}
	if n := srv.waiting("job"); n != 0 {
		t.Errorf("%d statements wait after Close", n)
	}
}

// A wait is canceled at the moment of its grant. The caller does not get the lock, and it is free.
func TestCanceledAtTheGrant(t *testing.T) { synctest.Test(t, canceledAtTheGrant) }

func canceledAtTheGrant(t *testing.T) {
	srv := newServer()
	a, b := open(srv), open(srv)
	defer a.Close()
	defer b.Close()
	b.dialect.deaf = true
	r := request("job")
	if _, err := a.Acquire(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	result := make(chan error, 1)
	go func() {
		_, err := b.Wait(ctx, request("job"), true)
		result <- err
	}()
	synctest.Wait()
	cancel()
	if err := <-result; !errors.Is(err, context.Canceled) {
		t.Errorf("Wait: %v", err)
	}
	if _, err := a.Release(t.Context(), "job", r.Token.Text(), 0); err != nil {
		t.Fatal(err)
	}
	synctest.Wait() // the statement of the wait has got the lock
	if _, err := a.Acquire(t.Context(), request("job")); err != nil {
		t.Errorf("the lock that a canceled wait got: %v", err)
	}
}
