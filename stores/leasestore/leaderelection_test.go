package leasestore_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/drivertest"
	"github.com/padlock-go/padlock/internal/server/fakes"
	"github.com/padlock-go/padlock/storekit/overhttp/overhttptest"
	"github.com/padlock-go/padlock/storekit/register"
	"github.com/padlock-go/padlock/stores/leasestore"
)

func openShared(ctx context.Context, f *overhttptest.Front) (*register.Store, error) {
	return leasestore.Open(ctx, leasestore.Config{Namespace: "shop", Endpoint: "http://memory", LeaderElection: true, Transport: f.Transport()})
}

// The store passes the suite in the layout of client-go, too.
func TestLeaderElectionContract(t *testing.T) {
	inMemory(t, func(t *testing.T, f *fakes.Kubernetes, s *overhttptest.Service) {
		s.Skew = 1000 * time.Hour
		h := s.Harness("write", func(ctx context.Context, front *overhttptest.Front) (driver.Store, error) {
			return openShared(ctx, front)
		}, f.Empty)
		h.Logf = t.Logf
		for _, failure := range drivertest.Check(h) {
			t.Error(failure)
		}
	})
}

// A candidate elects leaders as client-go v0.37 does (tryAcquireOrRenew and release of its package
// leaderelection). TestClientGo checks the same with client-go itself.
type candidate struct {
	t        *testing.T
	server   http.Handler
	identity string
	seen     string    // the spec as it was seen first
	at       time.Time // when it was
	seconds  int
	holder   string
}

const duration = 15 * time.Second

// try returns whether the candidate leads now.
func (c *candidate) try() bool {
	c.t.Helper()
	now := time.Now()
	object, status := c.send(http.MethodGet, "/deploy", nil)
	if status == http.StatusNotFound {
		_, status = c.send(http.MethodPost, "", c.claim(map[string]any{"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": map[string]any{"name": "deploy"}}))
		return status == http.StatusOK
	}
	c.observe(object, now)
	if c.holder != "" && c.at.Add(time.Duration(c.seconds)*time.Second).After(now) && c.holder != c.identity {
		return false
	}
	_, status = c.send(http.MethodPut, "/deploy", c.claim(object))
	return status == http.StatusOK
}

func (c *candidate) observe(object map[string]any, now time.Time) {
	text, _ := json.Marshal(object["spec"])
	if string(text) == c.seen {
		return
	}
	var spec struct {
		HolderIdentity       string
		LeaseDurationSeconds int
	}
	if err := json.Unmarshal(text, &spec); err != nil {
		c.t.Fatal(err)
	}
	c.seen, c.at, c.holder, c.seconds = string(text), now, spec.HolderIdentity, spec.LeaseDurationSeconds
}

// claim puts the candidate into the spec of an object, and leaves the rest as it is.
func (c *candidate) claim(object map[string]any) map[string]any {
	at := time.Now().UTC().Format("2006-01-02T15:04:05.000000Z")
	object["spec"] = map[string]any{"holderIdentity": c.identity, "leaseDurationSeconds": int(duration / time.Second), "acquireTime": at, "renewTime": at, "leaseTransitions": 1}
	return object
}

// release gives the lease up.
func (c *candidate) release() {
	c.t.Helper()
	object, _ := c.send(http.MethodGet, "/deploy", nil)
	c.claim(object)
	spec := object["spec"].(map[string]any)
	spec["holderIdentity"], spec["leaseDurationSeconds"] = "", 1
	if _, status := c.send(http.MethodPut, "/deploy", object); status != http.StatusOK {
		c.t.Fatalf("the release is answered %d", status)
	}
}

func (c *candidate) send(method, path string, body any) (object map[string]any, status int) {
	c.t.Helper()
	var text io.Reader
	if body != nil {
		data, err := json.Marshal(body)
		if err != nil {
			c.t.Fatal(err)
		}
		text = strings.NewReader(string(data))
	}
	out := httptest.NewRecorder()
	c.server.ServeHTTP(out, httptest.NewRequest(method, "/apis/coordination.k8s.io/v1/namespaces/shop/leases"+path, text))
	if err := json.Unmarshal(out.Body.Bytes(), &object); err != nil {
		c.t.Fatal(err)
	}
	return object, out.Code
}

// shared runs a test with a store and a candidate.
func shared(t *testing.T, test func(t *testing.T, store *register.Store, c *candidate)) {
	synctest.Test(t, func(t *testing.T) {
		f := fakes.NewKubernetes()
		s := overhttptest.Start(f)
		defer s.Stop()
		store, err := openShared(t.Context(), s.Front())
		if err != nil {
			t.Fatal(err)
		}
		defer store.Close()
		test(t, store, &candidate{t: t, server: f, identity: "pod-9_4711"})
	})
}

// A leader of client-go keeps padlock out for as long as it renews, and for the lease behind that.
func TestLeaderKeepsPadlockOut(t *testing.T) {
	shared(t, func(t *testing.T, store *register.Store, c *candidate) {
		for range 20 {
			if !c.try() {
				t.Fatal("the candidate does not lead")
			}
			var held *driver.HeldError
			if _, err := store.Acquire(t.Context(), request("deploy")); !errors.As(err, &held) || held.Holds[0].Host != c.identity {
				t.Fatalf("while client-go leads: %v", err)
			}
			<-time.After(10 * time.Second)
		}
		if _, err := store.Acquire(t.Context(), request("deploy")); err == nil { // 10 s after the last renewal
			t.Fatal("granted while client-go leads")
		}
		<-time.After(duration - 10*time.Second + time.Second)
		if _, err := store.Acquire(t.Context(), request("deploy")); err != nil {
			t.Fatalf("after the lease of the leader: %v", err)
		}
		if c.try() {
			t.Error("the leader renews a lease that padlock has")
		}
	})
}

// A holder of padlock keeps client-go out, while it renews and until the end of its lease. Each of
// them gets at once the lock that the other one releases.
func TestPadlockKeepsLeadersOut(t *testing.T) {
	shared(t, func(t *testing.T, store *register.Store, c *candidate) {
		var last uint64
		for round := range 3 {
			r := request("deploy")
			g, err := store.Acquire(t.Context(), r)
			if err != nil || g.Fence <= last {
				t.Fatalf("round %d: %+v, %v; the last fence was %d", round, g, err, last)
			}
			last = g.Fence
			for range 20 {
				if c.try() {
					t.Fatal("client-go leads while padlock holds")
				}
				<-time.After(10 * time.Second)
				if _, err := store.Extend(t.Context(), r.Name, r.Token, r.TTL); err != nil {
					t.Fatal(err)
				}
			}
			if out, err := store.Release(t.Context(), r.Name, r.Token, 0); out != driver.OutcomeReleased || err != nil {
				t.Fatal(out, err)
			}
			if !c.try() {
				t.Fatal("client-go does not lead after the release")
			}
			if out, err := store.Release(t.Context(), r.Name, r.Token, 0); out == driver.OutcomeReleased || err != nil {
				t.Errorf("released twice: %v, %v", out, err)
			}
			if !c.try() {
				t.Fatal("a release of padlock has ended the term of client-go")
			}
			c.release()
		}
	})
}

// A dead holder of padlock is followed by client-go after its lease, and learns of it.
func TestLeaderFollowsDeadHolder(t *testing.T) {
	shared(t, func(t *testing.T, store *register.Store, c *candidate) {
		r := request("deploy")
		start := time.Now()
		if _, err := store.Acquire(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		for !c.try() {
			<-time.After(time.Second)
		}
		if took := time.Since(start); took < r.TTL || took > r.TTL+3*time.Second {
			t.Errorf("client-go leads after %v, with a lease of %v", took, r.TTL)
		}
		if _, err := store.Extend(t.Context(), r.Name, r.Token, r.TTL); !errors.Is(err, driver.ErrLost) {
			t.Errorf("the dead holder: %v", err)
		}
		if !c.try() {
			t.Error("the leader has lost its term")
		}
	})
}

// A cool-down keeps client-go out, too.
func TestCoolDownKeepsLeadersOut(t *testing.T) {
	shared(t, func(t *testing.T, store *register.Store, c *candidate) {
		r := request("deploy")
		if _, err := store.Acquire(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		const keep = time.Minute
		if out, err := store.Release(t.Context(), r.Name, r.Token, keep); out != driver.OutcomeReleased || err != nil {
			t.Fatal(out, err)
		}
		start := time.Now()
		for !c.try() {
			<-time.After(time.Second)
		}
		if took := time.Since(start); took < keep || took > keep+3*time.Second {
			t.Errorf("client-go leads after %v, with a cool-down of %v", took, keep)
		}
	})
}

// The object of a name has that name if it can, and is no other store's otherwise.
func TestLeaderElectionObjects(t *testing.T) {
	inMemory(t, func(t *testing.T, f *fakes.Kubernetes, s *overhttptest.Service) {
		election, err := openShared(t.Context(), s.Front())
		if err != nil {
			t.Fatal(err)
		}
		defer election.Close()
		plain, _ := open(t, s, false)
		names := []string{"deploy", "a.b-c.d9", "Deploy", "a_b", "-a", "a.", "padlock-deploy", strings.Repeat("a", 254)}
		for _, name := range names {
			for _, store := range []*register.Store{election, plain} {
				if _, err := store.Acquire(t.Context(), request(name)); err != nil {
					t.Errorf("%q: %v", name, err)
				}
			}
			f.Mu.Lock()
			_, own := f.Objects[name]
			f.Mu.Unlock()
			if own != (name == "deploy" || name == "a.b-c.d9") {
				t.Errorf("%q has an object of its name: %v", name, own)
			}
		}
		states, err := election.List(t.Context(), "")
		if err != nil || len(states) != len(names) {
			t.Errorf("%d names, %v; want %d", len(states), err, len(names))
		}
	})
}

// Settings that client-go cannot share are refused.
func TestWrongLeaderElection(t *testing.T) {
	for _, query := range []string{"shop/prefix?layout=leaderelection", "shop?layout=leaderelection&clock=server", "shop?layout=other"} {
		if err := look(t, fmt.Sprintf("kubernetes://%s&endpoint=http://127.0.0.1:1", query)); !errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), "layout") {
			t.Errorf("%s: %v", query, err)
		}
	}
}
