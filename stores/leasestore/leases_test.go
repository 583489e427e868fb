package leasestore_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/internal/server/fakes"
	"github.com/padlock-go/padlock/storekit/overhttp/overhttptest"
	"github.com/padlock-go/padlock/storekit/register"
	"github.com/padlock-go/padlock/stores/leasestore"
)

func request(name string) driver.Request {
	return driver.Request{Name: name, Token: driver.TokenOf(rand.Text()), TTL: 30 * time.Second, Holder: driver.Holder{Host: "pod-7", Label: "nightly"}}
}

func open(t *testing.T, s *overhttptest.Service, server bool) (*register.Store, *overhttptest.Front) {
	t.Helper()
	f := s.Front()
	store, err := openOn(t.Context(), f, server)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	return store, f
}

// answers gives the next requests of a front end an answer.
func answers(f *overhttptest.Front, answer overhttptest.Answer) func(reads, writes int) {
	return func(reads, writes int) {
		f.Next("read", reads, answer)
		f.Next("write", writes, answer)
	}
}

func TestDisturbances(t *testing.T) {
	all := map[string]overhttptest.Answer{"conflict": overhttptest.Say(409, "", false)}
	for _, effect := range []bool{true, false} {
		all[fmt.Sprint("lost, effect=", effect)] = overhttptest.Lose(effect)
		all[fmt.Sprint("500, effect=", effect)] = overhttptest.Say(500, "", effect)
		all[fmt.Sprint("504, effect=", effect)] = overhttptest.Say(504, "", effect)
		all[fmt.Sprint("429, effect=", effect)] = overhttptest.Say(429, "", effect)
	}
	for name, answer := range all {
		t.Run(name, func(t *testing.T) {
			inMemory(t, func(t *testing.T, _ *fakes.Kubernetes, s *overhttptest.Service) {
				store, f := open(t, s, false)
				overhttptest.CheckDisturbances(t, store, func(reads, writes int) {
					f.Next("read", reads, overhttptest.Say(503, "", false))
					f.Next("write", writes, answer)
				})
			})
		})
	}
}

// A proxy may also answer 404, which is no answer of an API server about a Lease.
func TestPortal(t *testing.T) {
	for body, status := range map[string]int{"<html>Please log in</html>": 200, "{}": 200, "": 200, "default backend - 404": 404} {
		inMemory(t, func(t *testing.T, _ *fakes.Kubernetes, s *overhttptest.Service) {
			store, f := open(t, s, false)
			other, _ := open(t, s, false)
			if err := overhttptest.CheckPortal(t, store, other, answers(f, overhttptest.Say(status, body, false))); !errors.Is(err, driver.ErrUncertain) && status == 200 {
				t.Errorf("%q: a write: %v", body, err)
			}
		})
	}
}

func TestLateEffect(t *testing.T) {
	inMemory(t, func(t *testing.T, _ *fakes.Kubernetes, s *overhttptest.Service) {
		store, f := open(t, s, false)
		other, _ := open(t, s, false)
		if code := overhttptest.CheckLateEffect(t, store, other, f, "write"); code != http.StatusConflict {
			t.Errorf("the late write is answered %d", code)
		}
	})
}

// Without the rights, nothing is written, and the error is not one of the lock.
func TestForbidden(t *testing.T) {
	inMemory(t, func(t *testing.T, _ *fakes.Kubernetes, s *overhttptest.Service) {
		store, f := open(t, s, false)
		for _, kind := range []string{"read", "write"} {
			f.Next(kind, 1, overhttptest.Say(403, `{"message":"leases is forbidden"}`, false))
			if _, err := store.Acquire(t.Context(), request("job")); !errors.Is(err, driver.ErrUnavailable) || errors.Is(err, driver.ErrUncertain) || !strings.Contains(err.Error(), "leases is forbidden") {
				t.Errorf("%s: %v", kind, err)
			}
		}
	})
}

// When a holder dies, a process that has watched gets the name after the lease, and one that comes
// anew after it has watched for as long. With the clock of the server it is free to all at once.
func TestDeadHolder(t *testing.T) {
	for _, server := range []bool{false, true} {
		inMemory(t, func(t *testing.T, _ *fakes.Kubernetes, s *overhttptest.Service) {
			s.Skew = 2 * time.Second
			holder, _ := open(t, s, server)
			if _, err := holder.Acquire(t.Context(), request("job")); err != nil {
				t.Fatal(err)
			}
			<-time.After(40 * time.Second)
			anew, _ := open(t, s, server)
			_, err := anew.Acquire(t.Context(), request("job"))
			if free := err == nil; free != server || err != nil && !errors.Is(err, driver.ErrHeld) {
				t.Errorf("server=%v: a new process after 40 s: %v", server, err)
			}
			<-time.After(31 * time.Second)
			if server {
				return
			}
			if _, err := anew.Acquire(t.Context(), request("job")); err != nil {
				t.Errorf("31 s after the first look: %v", err)
			}
		})
	}
}

// Programs with different clocks do not read each other's records.
func TestTwoClocks(t *testing.T) {
	inMemory(t, func(t *testing.T, _ *fakes.Kubernetes, s *overhttptest.Service) {
		observed, _ := open(t, s, false)
		server, _ := open(t, s, true)
		if _, err := observed.Acquire(t.Context(), request("job")); err != nil {
			t.Fatal(err)
		}
		if _, err := server.Acquire(t.Context(), request("job")); !errors.Is(err, driver.ErrUnavailable) || !strings.Contains(err.Error(), "clock=observed") {
			t.Errorf("Acquire: %v", err)
		}
	})
}

// A waiter asks once and then watches: a release wakes it, and an hour of waiting costs few
// requests.
func TestWaiter(t *testing.T) {
	inMemory(t, func(t *testing.T, _ *fakes.Kubernetes, s *overhttptest.Service) {
		store, _ := open(t, s, false)
		holder := padlock.New(store)
		defer holder.Close(context.Background())
		rival, _ := open(t, s, false)
		waiter := padlock.New(rival)
		defer waiter.Close(context.Background())
		lock, err := holder.Acquire(t.Context(), "job")
		if err != nil {
			t.Fatal(err)
		}
		got := make(chan error, 1)
		go func() {
			l, err := waiter.Acquire(t.Context(), "job")
			if err == nil {
				err = l.Release()
			}
			got <- err
		}()
		<-time.After(time.Hour)
		start := time.Now()
		if err := lock.Release(); err != nil {
			t.Fatal(err)
		}
		if err := <-got; err != nil || time.Since(start) > time.Second {
			t.Errorf("the waiter got the lock %v after its release: %v", time.Since(start), err)
		}
	})
}

// The object shows people who holds the lock, and has a name of DNS for every name of a lock.
func TestObjects(t *testing.T) {
	inMemory(t, func(t *testing.T, f *fakes.Kubernetes, s *overhttptest.Service) {
		store, _ := open(t, s, false)
		names := []string{"job", "a/b", "Ä \x00\xff", strings.Repeat("n", driver.MaxName)}
		for _, name := range names {
			if _, err := store.Acquire(t.Context(), request(name)); err != nil {
				t.Fatal(err)
			}
		}
		f.Mu.Lock()
		for name, o := range f.Objects {
			if o.Spec["holderIdentity"] != "pod-7 nightly" || o.Metadata.Labels["app.kubernetes.io/managed-by"] != "padlock" {
				t.Errorf("%s: %+v", name, o)
			}
		}
		f.Objects["foreign"] = fakes.Object{Metadata: fakes.Meta{Name: "foreign", ResourceVersion: "1", Labels: map[string]string{"app.kubernetes.io/managed-by": "padlock"}}}
		f.Mu.Unlock()
		if states, err := store.List(t.Context(), ""); err != nil || len(states) != len(names) {
			t.Errorf("List: %d names, %v", len(states), err)
		}
	})
}

// Outside of a pod a URL needs an endpoint. A token is read anew for each request.
func TestURLs(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "missing"))
	for rawURL, want := range map[string]string{
		"kubernetes:":                                     "kubectl proxy",
		"kubernetes://Shop?endpoint=http://x":             "the namespace",
		"kubernetes://u:secret@shop?endpoint=http://x":    "token-file",
		"kubernetes:?endpoint=http://x/path":              "the endpoint",
		"kubernetes:?endpoint=http://x&clock=local":       "observed or server",
		"kubernetes:?endpoint=http://x&ca-file=/dev/null": "certificate",
		"kubernetes:?endpoint=http://x&skew=1s":           "no parameter",
		"kubernetes:?endpoint=http://x&token-file=/x":     "read on the way",
	} {
		u, err := url.Parse(rawURL)
		if err != nil {
			t.Fatal(err)
		}
		store, err := leasestore.FromURL(t.Context(), u, register.Lazy())
		if err == nil {
			store.Close()
		}
		if !errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v; want %q", rawURL, err, want)
		}
	}
	token := filepath.Join(t.TempDir(), "token")
	var seen []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen = append(seen, r.URL.Path+" "+r.Header.Get("Authorization"))
		http.Error(w, `{"kind":"Status"}`, http.StatusNotFound)
	}))
	defer server.Close()
	u, err := url.Parse("kubernetes://shop/locks?token-file=" + token + "&endpoint=" + server.URL)
	if err != nil {
		t.Fatal(err)
	}
	store, err := leasestore.FromURL(t.Context(), u, register.Lazy())
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	for _, text := range []string{"first\n", "second\n"} {
		if err := os.WriteFile(token, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := store.Inspect(t.Context(), "job"); err != nil {
			t.Error(err)
		}
	}
	if len(seen) != 2 || !strings.HasPrefix(seen[0], "/apis/coordination.k8s.io/v1/namespaces/shop/leases/padlock-") || !strings.HasSuffix(seen[0], "Bearer first") || !strings.HasSuffix(seen[1], "Bearer second") {
		t.Errorf("asked %q", seen)
	}
}

// A Lease that is deleted between the read and the write of a call stays deleted: the server would
// make it again from the old record, if the write did not name the deleted object.
func TestDeletedLease(t *testing.T) {
	f := fakes.NewKubernetes()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPut {
			f.Empty()
		}
		f.ServeHTTP(w, r)
	}))
	defer server.Close()
	store, err := leasestore.Open(t.Context(), leasestore.Config{Namespace: "shop", Endpoint: server.URL}, register.Lazy())
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	if _, err := store.Acquire(t.Context(), driver.Request{Name: "job", Token: driver.TokenOf("t"), TTL: 30 * time.Second}); err != nil {
		t.Fatal(err)
	}
	if _, err := store.Extend(t.Context(), "job", "t", 30*time.Second); !errors.Is(err, driver.ErrLost) {
		t.Errorf("Extend: %v", err)
	}
}

// A prefix in a Config names the same objects as in a URL, with a slash at its end or without one.
func TestPrefix(t *testing.T) {
	paths := map[string]bool{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		paths[r.URL.Path] = true
		http.Error(w, `{"kind":"Status"}`, http.StatusNotFound)
	}))
	defer server.Close()
	look := func(store *register.Store, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		defer store.Close()
		if _, err := store.Inspect(t.Context(), "job"); err != nil {
			t.Error(err)
		}
	}
	for _, prefix := range []string{"locks", "locks/"} {
		u, err := url.Parse("kubernetes://shop/" + prefix + "?endpoint=" + server.URL)
		if err != nil {
			t.Fatal(err)
		}
		look(leasestore.FromURL(t.Context(), u, register.Lazy()))
		look(leasestore.Open(t.Context(), leasestore.Config{Namespace: "shop", Prefix: prefix, Endpoint: server.URL}, register.Lazy()))
	}
	if len(paths) != 1 {
		t.Errorf("one name has the objects %v", paths)
	}
}

// With the clock of the servers, register.Skew counts if it is more than two seconds.
func TestSkew(t *testing.T) {
	c := leasestore.Config{Namespace: "shop", Endpoint: "http://memory", ServerClock: true}
	for skew, want := range map[time.Duration]time.Duration{0: 15 * time.Second, time.Second: 15 * time.Second, 10 * time.Second: 55 * time.Second} {
		store, err := leasestore.Open(t.Context(), c, register.Lazy(), nil, register.Skew(skew))
		if err != nil {
			t.Fatal(err)
		}
		defer store.Close()
		if got := store.Guarantees().MinTTL; got != want {
			t.Errorf("a skew of %v: the shortest lease is %v, want %v", skew, got, want)
		}
	}
	for _, skew := range []time.Duration{-time.Second, time.Hour} {
		if _, err := leasestore.Open(t.Context(), c, register.Lazy(), register.Skew(skew)); !errors.Is(err, driver.ErrInvalid) {
			t.Errorf("a skew of %v: %v", skew, err)
		}
	}
}

// A server that knows an old version no more is asked for the object as it is. A server that
// refuses every watch is asked now and then.
func TestWatchFromAnOldVersion(t *testing.T) {
	for _, gone := range []string{"status", "event"} {
		for _, never := range []bool{false, true} {
			inMemory(t, func(t *testing.T, f *fakes.Kubernetes, s *overhttptest.Service) {
				f.Gone, f.Never = gone, never
				store, _ := open(t, s, false)
				r := request("job")
				r.TTL = time.Hour
				if _, err := store.Acquire(t.Context(), r); err != nil {
					t.Fatal(err)
				}
				s.Counts()
				woken := make(chan error, 1)
				go func() {
					_, err := store.Wait(t.Context(), request("job"), false)
					woken <- err
				}()
				<-time.After(time.Minute)
				n := s.Counts()
				if most := map[bool]int{false: 2, true: 400}[never]; n["watch"] > most {
					t.Errorf("%s, never=%v: %v in a minute", gone, never, n)
				}
				if _, err := store.Release(t.Context(), r.Name, r.Token.Text(), 0); err != nil {
					t.Fatal(err)
				}
				start := time.Now()
				if err := <-woken; err != nil || time.Since(start) > 2*time.Second {
					t.Errorf("%s, never=%v: woken after %v: %v", gone, never, time.Since(start), err)
				}
			})
		}
	}
}

// Two prefixes and two namespaces of a cluster fail together: they are no two members of a quorum.
func TestSamePlace(t *testing.T) {
	lazily := func(c leasestore.Config) *register.Store {
		store, err := leasestore.Open(t.Context(), c, register.Lazy())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { store.Close() })
		return store
	}
	one := lazily(leasestore.Config{Namespace: "shop", Prefix: "a", Endpoint: "http://one"})
	for want, other := range map[bool]*register.Store{
		true:  lazily(leasestore.Config{Namespace: "stock", Prefix: "b", Endpoint: "http://one/"}),
		false: lazily(leasestore.Config{Namespace: "shop", Prefix: "a", Endpoint: "http://two"}),
	} {
		if got := driver.SamePlace(one, other); got != want {
			t.Errorf("in the same place: %v, want %v", got, want)
		}
	}
}

// The store refuses a reader whose label would make the annotations longer than the server takes.
func TestManyReaders(t *testing.T) {
	server.Thorough(t)
	inMemory(t, func(t *testing.T, _ *fakes.Kubernetes, s *overhttptest.Service) {
		for _, open := range []func() (*register.Store, error){
			func() (*register.Store, error) { return openOn(t.Context(), s.Front(), false) },
			func() (*register.Store, error) { return openShared(t.Context(), s.Front()) },
		} {
			store, err := open()
			if err != nil {
				t.Fatal(err)
			}
			overhttptest.CheckReaders(t, store, 25)
			store.Close()
		}
	})
}
