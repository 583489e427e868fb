package overhttptest

import (
	"crypto/rand"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/safety"
)

// The checks below let a service answer badly. Each must run in a bubble of testing/synctest, on
// stores that are just opened, since some answers take a store as long as driver.MaxSilence. Their
// argument next says, by Front.Next, that the next reads (a list is a read, too) and writes of the
// store get the bad answer, as many as the numbers; 0 ends it.

func request(name string) driver.Request {
	return driver.Request{Name: name, Token: driver.TokenOf(rand.Text()), TTL: 30 * time.Second}
}

// CheckDisturbances checks a store whose reads are refused for the moment, and whose writes get the
// bad answer once: a lost reply, an error, a conflict. The store must repair that by reading and, if
// nothing was written, by writing again, so that the caller gets what it has asked for, once.
func CheckDisturbances(t *testing.T, store driver.Store, next func(reads, writes int)) {
	t.Helper()
	r := request("job")
	next(3, 1)
	g, err := store.Acquire(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	next(3, 1)
	if e, err := store.Extend(t.Context(), r.Name, r.Token.Text(), time.Minute); err != nil || e.Fence != g.Fence {
		t.Errorf("Extend: %+v, %v; the fence was %d", e, err, g.Fence)
	}
	next(3, 1)
	if out, err := store.Release(t.Context(), r.Name, r.Token.Text(), 0); out != driver.OutcomeReleased || err != nil {
		t.Errorf("Release: %v, %v", out, err)
	}
	if n, err := store.Acquire(t.Context(), request("job")); err != nil || !safety.Rises(t, n.Fence, g.Fence) {
		t.Errorf("the next Acquire: %+v, %v", n, err)
	}
}

// CheckRefusal checks a store whose requests are refused for good, as for want of a right: nothing
// was written, and to repeat the request does not help. writes counts the writes since its last
// call.
func CheckRefusal(t *testing.T, store driver.Store, writes func() int, next func(reads, writes int)) {
	t.Helper()
	writes()
	next(0, 2)
	if _, err := store.Acquire(t.Context(), request("job")); !errors.Is(err, driver.ErrUnavailable) || errors.Is(err, driver.ErrUncertain) {
		t.Errorf("Acquire whose write is refused: %v", err)
	}
	if n := writes(); n != 1 {
		t.Errorf("%d writes", n)
	}
	next(1, 0)
	if _, err := store.Acquire(t.Context(), request("job")); !errors.Is(err, driver.ErrUnavailable) || errors.Is(err, driver.ErrUncertain) {
		t.Errorf("Acquire whose read is refused: %v", err)
	}
}

// CheckPortal checks a store behind a proxy that answers in the place of the service, as if all were
// well: for maintenance, or to ask for a login. The proxy must grant no lock, free no name and end
// no hold: its answer says neither that a name is free nor that something was written. The other
// store is not behind the proxy. CheckPortal returns the error of an Acquire whose writes the proxy
// answers.
func CheckPortal(t *testing.T, store, other driver.Store, next func(reads, writes int)) (wrote error) {
	t.Helper()
	admin, sees := store.(driver.Admin), other.(driver.Admin)
	r := request("held")
	if _, err := store.Acquire(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	next(1000, 1000)
	if _, err := store.Acquire(t.Context(), request("job")); !errors.Is(err, driver.ErrUnavailable) {
		t.Errorf("Acquire: %v", err)
	}
	if _, err := store.Extend(t.Context(), r.Name, r.Token.Text(), time.Minute); !errors.Is(err, driver.ErrUnavailable) || errors.Is(err, driver.ErrLost) {
		t.Errorf("Extend: %v", err)
	}
	if _, err := admin.Inspect(t.Context(), r.Name); !errors.Is(err, driver.ErrUnavailable) {
		t.Errorf("Inspect: %v", err)
	}
	if states, err := admin.List(t.Context(), ""); !errors.Is(err, driver.ErrUnavailable) {
		t.Errorf("List: %v, %v", states, err)
	}

	next(0, 1000)
	if _, wrote = store.Acquire(t.Context(), request("job")); wrote == nil {
		t.Error("Acquire whose writes it answers: no error")
	}
	if st, err := sees.Inspect(t.Context(), "job"); err != nil || len(st.Holds) > 0 {
		t.Errorf("nothing was written: %+v, %v", st, err)
	}

	next(0, 0)
	if _, err := store.Acquire(t.Context(), request("job")); err != nil {
		t.Errorf("Acquire when it is gone: %v", err)
	}
	if _, err := other.Acquire(t.Context(), request("job")); !errors.Is(err, driver.ErrHeld) {
		t.Errorf("another Acquire: %v", err)
	}
	return wrote
}

// CheckLateEffect checks that a write whose effect comes after its caller has given up and cleaned
// up gets nothing. The store is on the front end f. CheckLateEffect returns how the service answers
// the late write.
func CheckLateEffect(t *testing.T, store, other driver.Store, f *Front, write string) (code int) {
	t.Helper()
	sent := make(chan func() *httptest.ResponseRecorder, 1)
	f.Next(write, 1, func(_ http.ResponseWriter, carryOut func() *httptest.ResponseRecorder) {
		sent <- carryOut
		<-time.After(driver.MaxSilence)
		panic(http.ErrAbortHandler)
	})
	r := request("job")
	if _, err := store.Acquire(t.Context(), r); !errors.Is(err, driver.ErrUncertain) || errors.Is(err, driver.ErrHeld) {
		t.Fatalf("Acquire: %v", err)
	}
	if out, err := store.Release(t.Context(), r.Name, r.Token.Text(), 0); out != driver.OutcomeGone || err != nil {
		t.Errorf("the clean-up: %v, %v", out, err)
	}
	code = (<-sent)().Code
	if _, err := other.Acquire(t.Context(), request("job")); err != nil {
		t.Errorf("the next caller: %v", err)
	}
	<-time.After(driver.MaxSilence) // until the service has given the lost request up
	return code
}
