package aws_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/padlock-go/padlock/storekit/aws"
)

// A source finds keys that are valid for a while.
type source struct {
	found  int           // how many keys
	down   bool          // it fails
	silent bool          // it ends with its ctx
	hangs  chan struct{} // if not nil, it ends when that is closed, whatever ctx says
	lasts  time.Duration // 0 means for ever
}

var errDown = errors.New("the metadata service is down")

func (s *source) find(ctx context.Context) (k aws.Key, end time.Time, err error) {
	switch {
	case s.hangs != nil:
		<-s.hangs
		return k, end, errDown
	case s.silent:
		<-ctx.Done()
		return k, end, ctx.Err()
	case s.down:
		return k, end, errDown
	}
	s.found++
	if s.lasts > 0 {
		end = time.Now().Add(s.lasts).Round(0)
	}
	return aws.NewKey("id", "secret", "session"), end, nil
}

// keeping runs a test over a source. ask asks for a key after a time, and says how long that may
// take and whether there is one.
func keeping(t *testing.T, lasts time.Duration, test func(s *source, ask func(after, most time.Duration, works bool))) {
	synctest.Test(t, func(t *testing.T) {
		s := &source{lasts: lasts}
		get := aws.Keep(s.find)
		test(s, func(after, most time.Duration, works bool) {
			t.Helper()
			<-time.After(after)
			ctx, cancel := context.WithTimeout(t.Context(), 4*time.Second)
			defer cancel()
			start := time.Now()
			id, secret, session, err := get(ctx)
			if (err == nil) != works || works && (id != "id" || secret != "secret" || session != "session") {
				t.Errorf("%q, %v; want one: %v", id, err, works)
			}
			if d := time.Since(start); d > most {
				t.Errorf("it took %v", d)
			}
		})
	})
}

// If no new key can be had, the last one serves until its end. The next request after that finds a
// new one as soon as there is one.
func TestKeysAreKept(t *testing.T) {
	keeping(t, time.Hour, func(s *source, ask func(after, most time.Duration, works bool)) {
		ask(0, 0, true)
		s.down = true
		for range 59 {
			ask(time.Minute, 0, true)
		}
		ask(61*time.Second, 0, false)
		s.down = false
		ask(0, 0, true)
		if s.found != 2 {
			t.Errorf("%d keys", s.found)
		}
	})
}

// A key is replaced in time, and find is not asked for each request.
func TestKeysAreReplaced(t *testing.T) {
	keeping(t, time.Hour, func(s *source, ask func(after, most time.Duration, works bool)) {
		for range 4 * 60 * 60 {
			ask(time.Second, 0, true)
		}
		if s.found < 4 || s.found > 4*60+1 {
			t.Errorf("%d keys in four hours", s.found)
		}
	})
}

// A key without an end serves for ever. It is looked for now and then, since it may be another one.
func TestLastingKey(t *testing.T) {
	keeping(t, 0, func(s *source, ask func(after, most time.Duration, works bool)) {
		ask(0, 0, true)
		ask(time.Second, 0, true)
		if s.found != 1 {
			t.Errorf("%d keys", s.found)
		}
		ask(time.Hour, 0, true)
		s.down = true
		ask(time.Hour, 0, true)
		if s.found != 2 {
			t.Errorf("%d keys", s.found)
		}
	})
}

// A silent service, or a program that hangs, does not use up the time of requests while the last
// key is valid. Without a key, a request waits no longer than its ctx.
func TestSilentSource(t *testing.T) {
	for _, hangs := range []bool{false, true} {
		keeping(t, 10*time.Minute, func(s *source, ask func(after, most time.Duration, works bool)) {
			fall := func() {
				synctest.Wait()
				if s.silent = true; hangs {
					s.hangs = make(chan struct{})
				}
			}
			fall()
			ask(0, 4*time.Second, false)
			ask(0, 4*time.Second, false)
			synctest.Wait()
			if s.silent = false; hangs {
				close(s.hangs)
				s.hangs = nil
				synctest.Wait()
			}
			ask(10*time.Second, 0, true)
			fall()
			ask(9*time.Minute, time.Second, true)
			ask(0, 0, true)
			ask(time.Second, 0, true)
			ask(30*time.Second, time.Second, true)
			ask(time.Minute, 4*time.Second, false)
			if hangs {
				close(s.hangs)
			}
			<-time.After(10 * time.Second) // until the last search has ended
		})
	}
}

// A key that has ended by this clock serves all the same, as the clock may be ahead. The service
// refuses it if it has ended.
func TestKeyThatHasEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		get := aws.Keep(func(context.Context) (aws.Key, time.Time, error) {
			return aws.Key{ID: "id"}, time.Now().Add(-time.Minute), nil
		})
		for range 3 {
			if id, _, _, err := get(t.Context()); id != "id" || err != nil {
				t.Errorf("%q, %v", id, err)
			}
			<-time.After(time.Minute)
		}
	})
}
