package stampede

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/padlock-go/padlock/web/internal/jsoncodec"
)

// Option configures a Cache: see New.
type Option func(*settings)

type settings struct {
	ttl          time.Duration
	lease        time.Duration
	stale        time.Duration
	staleIfError time.Duration
	early        float64
	jitter       float64
	errorTTL     time.Duration
	timeLimit    time.Duration
	maxWait      time.Duration
	localFor     time.Duration
	strict       bool
	codec        Codec
	onError      func(ctx context.Context, key string, err error)
}

// forever means that only the context bounds how long a caller waits.
const forever = time.Duration(math.MaxInt64)

func defaults() settings {
	return settings{
		lease: defaultLease, errorTTL: time.Second, timeLimit: 5 * time.Minute, maxWait: forever,
		codec: jsoncodec.Codec{},
	}
}

// check returns an error if an option is invalid.
func (s *settings) check() error {
	for name, d := range map[string]time.Duration{
		"the time for which a value is fresh": s.ttl, "Stale": s.stale, "StaleIfError": s.staleIfError,
		"ErrorTTL": s.errorTTL, "TimeLimit": s.timeLimit, "MaxWait": s.maxWait, "Local": s.localFor,
	} {
		if d < 0 {
			return fmt.Errorf("%s is negative: %v", name, d)
		}
	}
	switch {
	case s.lease <= 0:
		return fmt.Errorf("Lease is not positive: %v", s.lease)
	case !(s.early >= 0) || math.IsInf(s.early, 0):
		return fmt.Errorf("Early is %v, not a number of at least 0", s.early)
	case !(s.jitter >= 0 && s.jitter <= 1):
		return fmt.Errorf("Jitter is %v, not between 0 and 1", s.jitter)
	case s.codec == nil:
		return errors.New("the Codec is nil")
	}
	return nil
}

// missing is the time for which a value is fresh if the option Fresh is not given.
const missing = time.Duration(math.MinInt64)

// Fresh sets how long a value is fresh, for example 30 s. It is required. The time is 0 or more;
// otherwise New returns an error. The function can set another time for its value: see FreshFor.
func Fresh(d time.Duration) Option { return func(s *settings) { s.ttl = d } }

// Lease sets the length of the worker's lease. The default is 2 s. The lease is renewed while the
// function runs. A worker that dies is replaced when its lease has run out. The time is above 0;
// otherwise New returns an error. If the store does not allow it (see padlock.TTL), Get returns
// padlock.ErrInvalid. On a store without leases, Lease has no effect.
func Lease(d time.Duration) Option { return func(s *settings) { s.lease = d } }

// Stale lets Get return a value that is no longer fresh, for d after the end of the fresh time. Get
// returns the stale value at once, while one caller makes a new value in the background
// (stale-while-revalidate). The time is 0 or more; otherwise New returns an error. With 0 s, which
// is the default, callers wait for the new value.
func Stale(d time.Duration) Option { return func(s *settings) { s.stale = d } }

// StaleIfError lets callers use a stale value if the function fails. The fresh time must have ended
// less than d ago. The first callers wait until the function has failed. Later callers get the
// stale value at once. The time is 0 or more; otherwise New returns an error. With 0 s, which is
// the default, callers get the error.
//
// The function is not called again until ErrorTTL is over. After that, the Cache calls the function
// in the background.
func StaleIfError(d time.Duration) Option { return func(s *settings) { s.staleIfError = d } }

// Early renews a value before it ceases to be fresh (probabilistic early refresh). A caller that
// gets a fresh value may begin to renew it in the background. The probability grows towards the end
// of the fresh time. It is also greater if the function takes long. The factor beta is usually 1. A
// greater beta renews earlier, and 0, which is the default, switches Early off. The factor is 0 or
// more and finite; otherwise New returns an error. A refresh gives up if the lock is held, so there
// is still only one worker. (Vattani, Chierichetti, Lowenstein: Optimal Probabilistic Cache
// Stampede Prevention, 2015.)
func Early(beta float64) Option { return func(s *settings) { s.early = beta } }

// Jitter varies how long a value is fresh, so that values that were made together do not go stale
// together. The time of each value becomes longer or shorter by a random amount. For example,
// Jitter(0.1) changes the time by at most a tenth. The share is from 0 to 1; otherwise New returns
// an error. The default is 0.
func Jitter(share float64) Option { return func(s *settings) { s.jitter = share } }

// ErrorTTL sets how long a failure counts. During this time the function is not called again, and
// callers get the error of the failed call. The default is 1 s; 0 turns ErrorTTL off. The time is 0
// or more; otherwise New returns an error.
//
// A Cache shares the failure with other processes through its Values. A caller in another process
// gets a *RemoteError with the text of the error. If the values are in memory (NewMemory), only
// this process knows of the failure.
func ErrorTTL(d time.Duration) Option { return func(s *settings) { s.errorTTL = d } }

// TimeLimit limits how long one call of the function may take. The default is 5 minutes; 0 means no
// limit. The time is 0 or more; otherwise New returns an error. When the time is over, the
// function's context ends, and the callers get an error that wraps ErrTimeLimit.
//
// If the function does not return then, the Cache waits for it a little longer: for the
// length of one lease (see Lease). After that the Cache releases the lock and drops the value,
// although the function still runs. So it may still run when the next call of the function begins.
func TimeLimit(d time.Duration) Option { return func(s *settings) { s.timeLimit = d } }

// MaxWait bounds how long a call takes, also while a store does not answer. After that the caller
// gets a stale value if this process knows one, else ErrNotReady. The function still runs to its
// end, even if no caller waits any more, and its value is kept. With 0 s, callers of Get never wait
// for the function, and for stored values up to 100 ms. The time is 0 or more; otherwise New
// returns an error. Without MaxWait only the caller's context bounds the wait.
func MaxWait(d time.Duration) Option { return func(s *settings) { s.maxWait = d } }

// Local keeps a copy of each value in this process, for at most d. If a key is popular, most calls
// of Get use the copy and do not load the value from the Cache's Values. At most 10,000 keys are
// kept. This process may serve a copy for up to d after another process has called Invalidate. The
// time is 0 or more; otherwise New returns an error. With 0 s, which is the default, there are no
// copies.
func Local(d time.Duration) Option { return func(s *settings) { s.localFor = d } }

// Strict makes Get fail if Values or the lock store fails. Without Strict, Get then serves a value
// that this process knows, or calls the function of the Cache, for one caller of this process at a
// time. So the site stays up while the cache is down.
func Strict() Option { return func(s *settings) { s.strict = true } }

// ValueCodec sets how values are encoded; JSON is the default. It refuses a struct without an exported
// field, of which it would keep nothing. If c is nil, New returns an error.
// Values of type []byte and string are kept as they are. A nil []byte becomes an empty one, for all
// callers.
func ValueCodec(c Codec) Option { return func(s *settings) { s.codec = c } }

// OnError calls f for errors that no caller gets: failed refreshes in the background, stores that
// cannot be reached, values that were not kept (ErrNotKept), and values that cannot be decoded. ctx
// has the values of the caller's context. key is the caller's key. f is called from several
// goroutines. If f panics, the panic is written to slog's default logger. Without OnError, or if f
// is nil, nobody learns of these errors.
func OnError(f func(ctx context.Context, key string, err error)) Option {
	return func(s *settings) { s.onError = f }
}
