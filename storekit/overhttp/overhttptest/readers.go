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
// service takes no longer record. All readers must then be able to renew and to release, and others
// to come in.
func CheckReaders(t *testing.T, store driver.Store, n int) {
	t.Helper()
	var all []driver.Request
	for size := driver.MaxLabel; size > 0; size /= 2 {
		for {
			r := reader(size)
			_, err := store.Acquire(t.Context(), r)
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
	for _, r := range all {
		if out, err := store.Release(t.Context(), r.Name, r.Token, 0); out != driver.OutcomeReleased || err != nil {
			t.Fatalf("Release: %v, %v", out, err)
		}
	}
	if _, err := store.Acquire(t.Context(), reader(driver.MaxLabel)); err != nil {
		t.Fatalf("after all have released: %v", err)
	}
}

// reader returns a request of a reader whose label has so many bytes. JSON needs six bytes for each
// of them.
func reader(label int) driver.Request {
	return driver.Request{Name: "readers", Token: rand.Text(), TTL: time.Hour, Shared: true, Holder: driver.Holder{
		Host: strings.Repeat("<", label/4), Label: strings.Repeat("<", label),
	}}
}
