package drivertest

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/padlock-go/padlock/driver"
)

// testCase is one rule of the contract and the way to check it. Most cases have the function f,
// which sends requests and checks that the store obeys the rule. Some cases have the function watch
// instead. It gets the result of each request that the other cases send, and checks that the result
// obeys the rule.
type testCase struct {
	name   string
	clause string
	needs  []need // what the store or the harness must have
	alone  bool   // the case disturbs others, so it runs after them, by itself
	f      func(*check)
	watch  func(*run, *call) string // returns what is wrong, or ""
}

// run is one run of the suite over one store.
type run struct {
	h           Harness
	id          string
	g           driver.Guarantees
	implemented driver.Ability // the optional interfaces that the store has, even those that it lacks
	a, b        driver.Store
	unit        time.Duration // the shortest lease
	patience    time.Duration // how long a result may take
	seq         atomic.Int64

	stillness func() stillness // begins to watch for standstills

	mu      sync.Mutex
	started time.Time
	watched map[string][]Failure
	ran     int
	silent  int       // in how many cases a method took too long
	slowAt  time.Time // when a call of any case last returned late; see client.begin
}

func (r *run) open() (driver.Store, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 3*r.patience) // Open may send several requests
	defer cancel()
	for { // a busy server may need more than one try
		s, err := r.h.Open(ctx)
		if !isSilence(err) || ctx.Err() != nil {
			return s, err
		}
		<-time.After(50 * time.Millisecond)
	}
}

// isSilence reports whether err says that the server did not answer.
func isSilence(err error) bool {
	return errors.Is(err, driver.ErrUnavailable) || errors.Is(err, driver.ErrUncertain)
}

// isAnswer reports whether err, or success, came from the server. Other errors say nothing about
// the speed of the machine.
func isAnswer(err error) bool {
	return err == nil || errors.Is(err, driver.ErrHeld) || isLoss(err)
}

func isLoss(err error) bool {
	return errors.Is(err, driver.ErrExpired) || errors.Is(err, driver.ErrLost)
}

func (r *run) long() time.Duration {
	if r.g.MaxTTL > 0 {
		return min(5*time.Minute, r.g.MaxTTL)
	}
	return 5 * time.Minute
}

func (r *run) logf(format string, args ...any) {
	if r.h.Logf != nil {
		r.h.Logf(format, args...)
	}
}

func randomID() string {
	b := make([]byte, 5)
	rand.Read(b)
	return hex.EncodeToString(b)
}

func (r *run) uniqueStem() string { return fmt.Sprintf("%s%s.%d.", r.h.Prefix, r.id, r.seq.Add(1)) }

func newToken() string {
	b := make([]byte, 32)
	rand.Read(b)
	return base64.StdEncoding.EncodeToString(b)
}
