package s3store_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/storekit/overhttp/overhttptest"
	"github.com/padlock-go/padlock/storekit/register"
	"github.com/padlock-go/padlock/stores/s3store"
)

// inMemory runs a test over the services of Amazon and Google in memory, in time that costs nothing.
func inMemory(t *testing.T, f func(t *testing.T, s *service)) {
	for kind, name := range []string{"s3", "gs"} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newService(s3store.Service(kind))
				defer s.Stop()
				f(t, s)
			})
		})
	}
}

// open opens a store, which the test closes at its end.
func (s *service) open(t *testing.T, opts ...register.Option) (*register.Store, *front) {
	t.Helper()
	store, f, err := s.openOn(t.Context(), s3store.DefaultSkew, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return store, f
}

func request(name string) driver.Request {
	return driver.Request{Name: name, Token: driver.TokenOf(rand.Text()), TTL: 30 * time.Second}
}

type answering = func(http.ResponseWriter, func() *httptest.ResponseRecorder)

// Requests that a busy or a broken service does not answer well. Each may have had an effect.
func disturbances() map[string]answering {
	all := map[string]answering{}
	for _, effect := range []bool{true, false} {
		all[fmt.Sprint("lost, effect=", effect)] = overhttptest.Lose(effect)
		all[fmt.Sprint("503, effect=", effect)] = say(503, "SlowDown", effect)
		all[fmt.Sprint("429, effect=", effect)] = say(429, "TooManyRequests", effect)
		all[fmt.Sprint("500, effect=", effect)] = say(500, "InternalError", effect)
	}
	all["409"] = say(409, "ConditionalRequestConflict", false)
	return all
}

// answers gives the next requests of a front end an answer.
func answers(f *front, answer answering) func(reads, writes int) {
	return func(reads, writes int) {
		f.Next("GET", reads, answer)
		f.Next("PUT", writes, answer)
	}
}

func TestDisturbances(t *testing.T) {
	for name, answer := range disturbances() {
		t.Run(name, func(t *testing.T) {
			inMemory(t, func(t *testing.T, s *service) {
				store, f := s.open(t)
				defer store.Close()
				overhttptest.CheckDisturbances(t, store, func(reads, writes int) {
					f.Next("GET", reads, say(503, "SlowDown", false))
					f.Next("PUT", writes, answer)
				})
			})
		})
	}
}

// A service that answers nothing but 503 for long makes a change uncertain if a PUT was sent, and
// unavailable if none was. It never makes a name look held.
func TestLongThrottling(t *testing.T) {
	inMemory(t, func(t *testing.T, s *service) {
		store, f := s.open(t)
		defer store.Close()
		f.Next("GET", 1000, say(503, "SlowDown", false))
		if _, err := store.Acquire(t.Context(), request("job")); !errors.Is(err, driver.ErrUnavailable) || errors.Is(err, driver.ErrUncertain) {
			t.Errorf("without a PUT: %v", err)
		}
		f.Next("GET", 0, nil)
		f.Next("PUT", 1000, say(503, "SlowDown", false))
		start := time.Now()
		if _, err := store.Acquire(t.Context(), request("job")); !errors.Is(err, driver.ErrUncertain) || errors.Is(err, driver.ErrUnavailable) || errors.Is(err, driver.ErrHeld) {
			t.Errorf("with a PUT: %v", err)
		}
		if d := time.Since(start); d > driver.MaxSilence {
			t.Errorf("with a PUT: it took %v", d)
		}
	})
}

func TestRefusals(t *testing.T) {
	for _, refusal := range []struct {
		status int
		code   string
	}{{403, "AccessDenied"}, {404, "NoSuchBucket"}, {409, "InvalidBucketState"}, {501, "NotImplemented"}, {400, "InvalidArgument"}, {301, "PermanentRedirect"}} {
		t.Run(refusal.code, func(t *testing.T) {
			inMemory(t, func(t *testing.T, s *service) {
				store, f := s.open(t)
				defer store.Close()
				overhttptest.CheckRefusal(t, store, func() int { return s.Counts()["PUT"] }, answers(f, say(refusal.status, refusal.code, false)))
			})
		})
	}
}

func TestLateEffect(t *testing.T) {
	inMemory(t, func(t *testing.T, s *service) {
		store, f := s.open(t)
		defer store.Close()
		other, _ := s.open(t)
		defer other.Close()
		if code := overhttptest.CheckLateEffect(t, store, other, f, "PUT"); code != http.StatusPreconditionFailed {
			t.Errorf("the late PUT is answered %d", code)
		}
	})
}

// A lease is never shorter than it was granted, and not longer than the clocks allow. The holder
// and the next caller use front ends whose clocks differ, begin at any moment of a second, and have
// clocks of their own that are an hour wrong.
func TestLeasesAreNotCutShort(t *testing.T) {
	const skew = s3store.DefaultSkew
	for _, wrong := range []time.Duration{0, -time.Hour, time.Hour} {
		inMemory(t, func(t *testing.T, s *service) {
			holder, at := s.open(t)
			defer holder.Close()
			next, there := s.open(t)
			defer next.Close()
			for _, ahead := range [][2]time.Duration{{0, 0}, {0, skew}, {skew, 0}} {
				at.Ahead, there.Ahead = wrong+ahead[0], wrong+ahead[1]
				for range 4 { // at four moments of a second
					<-time.After(730 * time.Millisecond)
					r := request(rand.Text())
					r.TTL = 10 * time.Second
					start := time.Now()
					g, err := holder.Acquire(t.Context(), r)
					if err != nil || g.TTL != r.TTL {
						t.Fatalf("granted %v, %v", g.TTL, err)
					}
					<-time.After(r.TTL - 2*time.Second)
					for tries := 0; ; tries++ {
						_, err := next.Acquire(t.Context(), request(r.Name))
						if err == nil {
							break
						}
						if !errors.Is(err, driver.ErrHeld) || tries > 200 {
							t.Fatal(err)
						}
						<-time.After(50 * time.Millisecond)
					}
					if d := time.Since(start); d < r.TTL || d > r.TTL+time.Second+2*skew+60*time.Millisecond {
						t.Errorf("clocks %v off and ahead by %v: a lease of %v ended after %v", wrong, ahead, r.TTL, d)
					}
				}
			}
		})
	}
}

// A service that ignores the conditions of a write is not taken.
func TestServiceWithoutConditions(t *testing.T) {
	for _, header := range []string{"If-Match", "If-None-Match"} {
		inMemory(t, func(t *testing.T, s *service) {
			honest := s.Handler()
			s.SetHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				r.Header.Del(header)
				if absent := r.Header.Get("X-Goog-If-Generation-Match") == "0"; absent == (header == "If-None-Match") {
					r.Header.Del("X-Goog-If-Generation-Match")
				}
				honest.ServeHTTP(w, r)
			}))
			if _, _, err := s.openOn(t.Context(), 0); !errors.Is(err, driver.ErrInvalid) {
				t.Errorf("Open without %s: %v", header, err)
			}
			lazy, _ := s.open(t, register.Lazy())
			defer lazy.Close()
			if f := finding(t, lazy, "conditional-writes"); f.Advice == "" {
				t.Errorf("without %s: %+v", header, f)
			}
		})
	}
}

// A service that checks the condition of a write, and writes a moment later, is not taken. If it is
// opened lazily, padlock doctor finds it. The check of the service in memory holds no lock either.
func TestServiceThatChecksFirst(t *testing.T) {
	inMemory(t, func(t *testing.T, s *service) {
		honest := s.Handler()
		s.SetHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method != http.MethodPut {
				honest.ServeHTTP(w, r)
				return
			}
			now, look := httptest.NewRecorder(), r.Clone(r.Context())
			look.Method, look.Header, look.Body = http.MethodGet, http.Header{"Authorization": r.Header["Authorization"]}, http.NoBody
			honest.ServeHTTP(now, look)
			version, wanted := now.Header().Get("ETag"), r.Header.Get("If-Match")
			if s.kind == s3store.ServiceGoogle {
				version, wanted = now.Header().Get("X-Goog-Generation"), strings.TrimPrefix(r.Header.Get("X-Goog-If-Generation-Match"), "0")
			}
			if now.Code != http.StatusOK {
				version = ""
			}
			if version != wanted {
				say(http.StatusPreconditionFailed, "PreconditionFailed", false)(w, nil)
				return
			}
			<-time.After(5 * time.Millisecond)
			for _, header := range []string{"If-Match", "If-None-Match", "X-Goog-If-Generation-Match"} {
				r.Header.Del(header)
			}
			honest.ServeHTTP(w, r)
		}))
		if _, _, err := s.openOn(t.Context(), 0); !errors.Is(err, driver.ErrInvalid) {
			t.Errorf("Open: %v", err)
		}
		lazy, _ := s.open(t, register.Lazy())
		defer lazy.Close()
		if f := finding(t, lazy, "conditional-writes"); f.Advice == "" {
			t.Errorf("%+v", f)
		}
	})
}

func finding(t *testing.T, store *register.Store, name string) driver.Finding {
	t.Helper()
	all, err := store.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range all {
		if f.Name == name {
			return f
		}
	}
	t.Fatalf("no finding %q in %+v", name, all)
	return driver.Finding{}
}

// Open takes a service that is busy for a moment, as when many processes start at once. It does not
// take one for careless whose refusal was lost.
func TestOpenWhileBusy(t *testing.T) {
	inMemory(t, func(t *testing.T, s *service) {
		for name, answer := range disturbances() {
			for n := range 3 {
				s.disturb = func(f *front) {
					var done atomic.Int64 // PUTs so far; the first n are answered well
					f.Next("PUT", n+3, func(w http.ResponseWriter, apply func() *httptest.ResponseRecorder) {
						if done.Add(1) <= int64(n) {
							out := apply()
							maps.Copy(w.Header(), out.Header())
							w.WriteHeader(out.Code)
							w.Write(out.Body.Bytes())
							return
						}
						answer(w, apply)
					})
				}
				if store, _, err := s.openOn(t.Context(), 0); err != nil {
					t.Errorf("%s, from PUT %d on: %v", name, n, err)
				} else {
					store.Close()
				}
			}
		}
		s.disturb = func(f *front) { f.Next("PUT", 1000, say(503, "SlowDown", false)) }
		start := time.Now()
		if _, _, err := s.openOn(t.Context(), 0); !errors.Is(err, driver.ErrUnavailable) || time.Since(start) > driver.MaxSilence {
			t.Errorf("busy for long: %v after %v", err, time.Since(start))
		}
		s.disturb = func(f *front) { f.Next("PUT", 1000, say(403, "AccessDenied", false)) }
		s.Counts()
		if _, _, err := s.openOn(t.Context(), 0); !errors.Is(err, driver.ErrUnavailable) || s.Counts()["PUT"] != 4 {
			t.Errorf("without the right: %v", err)
		}
	})
}

// Open reports a service that is down or silent, and ends with its context.
func TestOpenWithoutService(t *testing.T) {
	inMemory(t, func(t *testing.T, s *service) {
		goOn, _ := s.Pause()
		if _, _, err := s.openOn(t.Context(), 0); !errors.Is(err, driver.ErrUnavailable) {
			t.Errorf("silent: %v", err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, _, err := s.openOn(ctx, 0); !errors.Is(err, context.Canceled) {
			t.Errorf("canceled: %v", err)
		}
		goOn()
	})
}
