package register

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/storekit/decide"
)

// maxRequest is how long the service may be silent in one call.
const maxRequest = driver.MaxSilence * 9 / 10

// A call is one call of a method.
type call struct {
	*Store
	ctx    context.Context
	name   string
	until  time.Time // when the service will have been silent for too long
	unsure error     // why the outcome of a Put of this call is unknown, or nil
	spare  int       // how much room the decision must leave in the record: it has added a hold or a holder
}

func (s *Store) begin(ctx context.Context, name string) (*call, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if s.closed.Load() {
		return nil, driver.ErrClosed
	}
	return &call{Store: s, ctx: ctx, name: name, until: time.Now().Add(maxRequest)}, nil
}

// get reads the record.
func (c *call) get() (*view, error) {
	ctx, cancel := context.WithDeadline(c.ctx, c.until)
	defer cancel()
	from := c.local.Now()
	v, err := c.r.Get(ctx, c.opts.key(c.name))
	if err != nil {
		return nil, c.unavailable(err) // a Get changes nothing
	}
	c.heard()
	return c.decode(c.name, v, from)
}

// heard gives the service maxRequest from now on. After a Put with an unknown outcome it does
// nothing: a service that answers reads but no writes would keep the caller without end.
func (c *call) heard() {
	if c.unsure == nil {
		c.until = time.Now().Add(maxRequest)
	}
}

// cause returns the error of the caller's context, or nil.
func (c *call) cause() error {
	if c.closed.Load() {
		return driver.ErrClosed
	}
	return c.ctx.Err()
}

// unavailable returns the error of a read that failed.
func (c *call) unavailable(err error) error {
	if !errors.Is(err, driver.ErrUnavailable) {
		err = fmt.Errorf("%w: %w", driver.ErrUnavailable, err)
	}
	if cause := c.cause(); cause != nil {
		err = fmt.Errorf("%w: %w", cause, err)
	}
	return err
}

// An answer is what a call returns.
type answer[T any] struct {
	value T
	err   error
	at    decide.Time // of the decision
}

// A decision changes a view. It says whether the record has to be written, and what the call then
// returns. A decision is made again if somebody else has written.
type decision[T any] func(w *view) (write bool, value T, err error)

// change reads the record, decides and writes, until the record is written as it was decided. The
// states of a call:
//
//	state     what is known                       next
//	deciding  the record                          writing, or done if nothing changes
//	writing   a Put is under way                  done, raced or unknown
//	raced     somebody else wrote, or a proxy     deciding or done, once, if the refusal has the
//	          has sent the Put twice              record; otherwise a pause, then reading
//	unknown   the reply to the Put was lost       a pause, then reading
//	reading   the record is one of this call      done, with the answer of that Put
//	          the record is another one           deciding
//
// After an unknown outcome no refusal is certain: the Put may still arrive, or others have written
// since it arrived. The call then returns driver.ErrUncertain instead, at the latest when the
// service has not confirmed a Put for maxRequest.
//
// Two Puts of a call never both take effect: they name the same version, or the second one names a
// version that came after the first.
func change[T any](c *call, decide decision[T]) (value T, err error) {
	tried := map[string]answer[T]{} // by the number of the record
	var refused contradiction
	var w *view // of a refusal
	for n := 0; ; n++ {
		if w == nil {
			if w, err = c.get(); err != nil {
				return value, c.lost(err)
			}
		}
		if a, mine := tried[w.Nonce]; mine {
			c.wrote(w.Nonce, a.at)
			return ifNil(a.value, a.err)
		}
		write, result, failure := decide(w)
		if !write && failure != nil {
			return value, c.lost(failure)
		}
		if !write {
			return result, nil
		}
		data, nonce, err := w.encode(c.opts.Clock.Observed)
		if err == nil {
			err = c.checkSize(data)
		}
		if err != nil {
			return value, c.lost(err)
		}
		at, version := w.now.At, w.version
		tried[nonce] = answer[T]{result, failure, at}
		w, err = c.put(data, version)
		switch {
		case err == nil:
			c.wrote(nonce, at)
			return ifNil(result, failure)
		case errors.Is(err, ErrChanged) && w != nil && n == 0:
			continue
		case errors.Is(err, ErrChanged):
			w = nil
			if err := refused.judge(version); err != nil {
				return value, c.lost(err)
			}
		case errors.Is(err, driver.ErrUnavailable) && !errors.Is(err, driver.ErrUncertain):
			return value, c.lost(err)
		default:
			if c.cause() != nil || !time.Now().Before(c.until) {
				return value, errors.Join(c.cause(), driver.ErrUncertain, err)
			}
			c.unsure = err
		}
		if err := c.pause(n); err != nil {
			return value, c.lost(err)
		}
	}
}

func ifNil[T any](v T, err error) (T, error) {
	if err != nil {
		var zero T
		return zero, err
	}
	return v, nil
}

// maxRefused is how long the Puts of a call may be refused because others write the record.
const maxRefused = 30 * time.Second

// A contradiction is a version that Get returns and Put refuses. It may last for a moment, if Get
// reads from a server that is behind.
type contradiction struct {
	version string
	since   time.Time
	first   time.Time // when Put refused a version of this call for the first time
}

// judge returns an error if Put has refused this version, and no other one, for maxRequest, or all
// versions for maxRefused: every call must end.
func (r *contradiction) judge(version string) error {
	now := time.Now()
	if r.since.IsZero() {
		r.first = now
	}
	if r.since.IsZero() || r.version != version {
		r.version, r.since = version, now
	}
	switch {
	case now.Sub(r.since) > maxRequest:
		return fmt.Errorf("%w: the service returns a value, and refuses for %v to replace it, as if it had another version", driver.ErrUnavailable, maxRequest)
	case now.Sub(r.first) > maxRefused:
		return fmt.Errorf("%w: for %v, somebody else has written the record before each write", driver.ErrUnavailable, maxRefused)
	}
	return nil
}

// lost returns the error of a call that ends without a success. After an unknown outcome that is
// driver.ErrUncertain, and errors.Is finds no refusal in it.
func (c *call) lost(err error) error {
	if c.unsure == nil {
		return err
	}
	return errors.Join(c.cause(), driver.ErrUncertain, fmt.Errorf("%s; then: %s", c.unsure, err))
}

// put writes a record. If the service refuses and says what the record is, put returns that one. A
// record that cannot be read is left to the next Get.
func (c *call) put(data []byte, version string) (now *view, err error) {
	ctx, cancel := context.WithDeadline(c.ctx, c.until)
	defer cancel()
	from := c.local.Now()
	err = c.r.Put(ctx, c.opts.key(c.name), data, version)
	if err == nil || errors.Is(err, ErrChanged) {
		c.heard()
	}
	var changed *Changed
	if errors.As(err, &changed) {
		now, _ = c.decode(c.name, changed.Value, from)
	}
	if errors.Is(err, driver.ErrUnavailable) && !errors.Is(err, driver.ErrUncertain) {
		err = c.unavailable(err) // perhaps ctx ended before the Put was sent
	}
	return now, err
}

// pause waits for a random time, which doubles with each try up to a second. So callers that write
// the same record do not meet again and again, even if many of them are slow.
func (c *call) pause(n int) error {
	t := time.NewTimer(min(rand.N(time.Millisecond<<min(n, 10)), time.Until(c.until)))
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-c.ctx.Done():
		return c.ctx.Err()
	case <-c.life.Done():
		return driver.ErrClosed
	}
}
