package overhttptest

import (
	"crypto/rand"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/padlock-go/padlock/driver"
)

// CheckReaders lets readers with the longest labels hold a name, until the store lets no more in: at
// least least of them, and at most 1,000. The store must find out by itself that the service takes
// no longer record. All readers must then be able to renew and to release, and others to come in.
func CheckReaders(t *testing.T, store driver.Store, least int) {
	t.Helper()
	reader := func() driver.Request {
		// JSON needs six bytes for this one.
		label := strings.Repeat("<", driver.MaxLabel)
		host := strings.Repeat("<", driver.MaxHost)
		return driver.Request{Name: "readers", Token: rand.Text(), TTL: time.Hour, Shared: true, Holder: driver.Holder{Host: host, Label: label}}
	}
	var all []driver.Request
	var err error
	for err == nil && len(all) < 1000 {
		r := reader()
		if _, err = store.Acquire(t.Context(), r); err == nil {
			all = append(all, r)
		}
	}
	if len(all) < least || !errors.Is(err, driver.ErrUnavailable) || errors.Is(err, driver.ErrUncertain) || !strings.Contains(err.Error(), "shorter labels") {
		t.Fatalf("after %d readers: %v", len(all), err)
	}
	t.Logf("%d readers with the longest labels", len(all))
	for range 20 { // a record remembers these tokens for a while
		if _, err := store.Release(t.Context(), "readers", rand.Text(), 0); err != nil {
			t.Fatalf("the clean-up of a token without a hold: %v", err)
		}
	}
	for _, r := range all {
		if _, err := store.Extend(t.Context(), r.Name, r.Token, 2*time.Hour); err != nil {
			t.Fatalf("Extend: %v", err)
		}
		if _, err := store.Acquire(t.Context(), r); err != nil {
			t.Fatalf("a repeated Acquire: %v", err)
		}
	}
	for n, r := range all {
		if out, err := store.Release(t.Context(), r.Name, r.Token, 0); out != driver.OutcomeReleased || err != nil {
			t.Fatalf("Release: %v, %v", out, err)
		}
		if n == 0 {
			continue // the clean-ups need some of its room
		}
		next := reader()
		if _, err := store.Acquire(t.Context(), next); err != nil && n == len(all)-1 {
			t.Fatalf("after all have released: %v", err)
		}
		if _, err := store.Release(t.Context(), next.Name, next.Token, 0); err != nil {
			t.Fatalf("Release of a later reader: %v", err)
		}
	}
}
