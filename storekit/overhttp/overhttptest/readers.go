package overhttptest

import (
	"crypto/rand"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/padlock-go/padlock/driver"
)

// CheckReaders lets readers hold a name until the store lets no more in: at first at least n with
// the longest labels, and then others with shorter ones. The store must find out by itself that the
// service takes no longer record. Readers must then be able to renew, and all must be able to
// release, and others to come in. Every eighth reader renews, because each request reads and writes
// a long record.
func CheckReaders(t *testing.T, store driver.Store, n int) {
	t.Helper()
	var all []driver.Request
	for size := driver.MaxLabel; size > 0; size /= 2 {
		for {
			r := reader(size)
			err := answered(func() error { _, err := store.Acquire(t.Context(), r); return err })
			if err == nil && len(all) < 1000 {
				all = append(all, r)
				continue
			}
			if len(all) < n || !errors.Is(err, driver.ErrUnavailable) || errors.Is(err, driver.ErrUncertain) || !strings.Contains(err.Error(), "shorter labels") {
				t.Fatalf("after %d readers: %v", len(all), err)
			}
			break
		}
	}
	for range 20 { // a record remembers these tokens for a while
		token := rand.Text()
		if err := answered(func() error { _, err := store.Release(t.Context(), "readers", token, 0); return err }); err != nil {
			t.Fatalf("the clean-up of a token without a hold: %v", err)
		}
	}
	for i, r := range all {
		if i%8 != 0 && i != len(all)-1 {
			continue
		}
		if err := answered(func() error { _, err := store.Extend(t.Context(), r.Name, r.Token.Text(), 2*time.Hour); return err }); err != nil {
			t.Fatalf("Extend: %v", err)
		}
		if err := answered(func() error { _, err := store.Acquire(t.Context(), r); return err }); err != nil {
			t.Fatalf("a repeated Acquire: %v", err)
		}
	}
	for _, r := range all {
		var out driver.Outcome
		tries := 0 // an earlier one may have released the hold
		err := answered(func() (err error) {
			tries++
			out, err = store.Release(t.Context(), r.Name, r.Token.Text(), 0)
			return err
		})
		if out != driver.OutcomeReleased && (tries == 1 || out != driver.OutcomeGone) || err != nil {
			t.Fatalf("Release: %v, %v", out, err)
		}
	}
	last := reader(driver.MaxLabel)
	if err := answered(func() error { _, err := store.Acquire(t.Context(), last); return err }); err != nil {
		t.Fatalf("after all have released: %v", err)
	}
}

// answered repeats a call that the service does not answer in time, and returns the error of the
// last one. A server on a busy machine may be silent for longer than a call waits.
func answered(call func() error) (err error) {
	for range 10 {
		begun := time.Now()
		err = call()
		silent := errors.Is(err, driver.ErrUnavailable) || errors.Is(err, driver.ErrUncertain)
		if !silent || time.Since(begun) < time.Second {
			break
		}
	}
	return err
}

// reader returns a request of a reader whose label has so many bytes. JSON needs six bytes for each
// of them.
func reader(label int) driver.Request {
	return driver.Request{Name: "readers", Token: driver.TokenOf(rand.Text()), TTL: time.Hour, Shared: true, Holder: driver.Holder{
		Host: strings.Repeat("<", label/4), Label: strings.Repeat("<", label),
	}}
}
