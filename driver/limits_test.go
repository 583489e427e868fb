package driver

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
)

func TestCheckToken(t *testing.T) {
	for _, token := range []string{"t", strings.Repeat("t", MaxToken), "__WRITE__", "padlock"} {
		if err := CheckToken(token); err != nil {
			t.Errorf("a token of %d bytes: %v", len(token), err)
		}
	}
	long := strings.Repeat("secret", MaxToken)
	for _, token := range []string{"", long, "__write__", "padlock:look", "padlock:cool:1"} {
		err := CheckToken(token)
		if !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), "token") || strings.Contains(err.Error(), "secret") {
			t.Errorf("a token of %d bytes: %v", len(token), err)
		}
		r := Request{Name: "n", Token: TokenOf("t"), Replaces: TokenOf(token), TTL: MinTTL}
		if err := r.Validate(&Guarantees{}); errors.Is(err, ErrInvalid) != (token != "") {
			t.Errorf("a request that replaces a token of %d bytes: %v", len(token), err)
		}
	}
}

// A lease that is too long for its store is refused with the setting that allows it.
func TestTTLNamesTheSetting(t *testing.T) {
	err := CheckTTL("TTL", time.Hour, &Guarantees{MaxTTL: DefaultMaxTTL})
	if !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), "TTL is 1h0m0s, allowed are 100ms to 58s") || !strings.Contains(err.Error(), "MaxTTL (max-ttl=1h0m0s in its URL)") {
		t.Error(err)
	}
	if err := CheckTTL("TTL", time.Hour, &Guarantees{}); err != nil {
		t.Error(err)
	}
}

// The error of a caller that waits for a hold of its own process says so, and that a lease may be
// renewed.
func TestHeldByThisProcess(t *testing.T) {
	host, _ := os.Hostname()
	h := Hold{Holder: Holder{Host: host, PID: os.Getpid()}, Until: time.Date(2026, 11, 27, 14, 0, 0, 0, time.UTC)}
	want := fmt.Sprintf("lock is held by %s:%d (this process, by host and number) until 2026-11-27T14:00:00Z unless it is renewed", host, os.Getpid())
	if got := (&HeldError{Holds: []Hold{h}}).Error(); got != want {
		t.Errorf("%q, want %q", got, want)
	}
	h.PID++
	if got := h.String(); strings.Contains(got, "this process") {
		t.Error(got)
	}
}
