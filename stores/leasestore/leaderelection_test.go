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
	"github.com/padlock-go/padlock/internal/safety"
	"github.com/padlock-go/padlock/internal/server"
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
	server.Thorough(t)
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
	seen     time.Time // when the spec was seen first
	spec     candidateSpec
}

// A candidateSpec is what client-go compares of two specs. Its times have whole seconds.
type candidateSpec struct {
	HolderIdentity         string
	LeaseDurationSeconds   int
	LeaseTransitions       int
	AcquireTime, RenewTime time.Time
}

const duration = 15 * time.Second

// try returns whether the candidate leads now.
func (c *candidate) try() bool {
	c.t.Helper()
	now := time.Now()
	object, status := c.send(http.MethodGet, "/deploy", nil)
	if status == http.StatusNotFound {
		object = map[string]any{"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": map[string]any{"name": "deploy"}}
		_, status = c.send(http.MethodPost, "", claim(object, c.identity, int(duration/time.Second), 0))
		return status == http.StatusOK
	}
	c.observe(object, now)
	holder, transitions := c.spec.HolderIdentity, c.spec.LeaseTransitions
	if holder != "" && c.seen.Add(time.Duration(c.spec.LeaseDurationSeconds)*time.Second).After(now) && holder != c.identity {
		return false
	}
	if holder != c.identity {
		transitions++
	}
	_, status = c.send(http.MethodPut, "/deploy", claim(object, c.identity, int(duration/time.Second), transitions))
	return status == http.StatusOK
}

func (c *candidate) observe(object map[string]any, now time.Time) {
	if s := c.read(object); s != c.spec {
		c.spec, c.seen = s, now
	}
}

func (c *candidate) read(object map[string]any) (s candidateSpec) {
	text, err := json.Marshal(object["spec"])
	if err == nil {
		err = json.Unmarshal(text, &s)
	}
	if err != nil {
		c.t.Fatal(err)
	}
	s.AcquireTime, s.RenewTime = s.AcquireTime.Truncate(time.Second), s.RenewTime.Truncate(time.Second)
	return s
}

// claim replaces the spec of an object, and leaves the rest as it is.
func claim(object map[string]any, holder string, seconds, transitions int) map[string]any {
	at := time.Now().UTC().Format("2006-01-02T15:04:05.000000Z")
	object["spec"] = map[string]any{"holderIdentity": holder, "leaseDurationSeconds": seconds, "acquireTime": at, "renewTime": at, "leaseTransitions": transitions}
	return object
}

// release gives the lease up. As in client-go, it replaces the object as it is now, although the
// candidate may lead no more.
func (c *candidate) release() {
	c.t.Helper()
	object, _ := c.send(http.MethodGet, "/deploy", nil)
	transitions := c.read(object).LeaseTransitions
	if _, status := c.send(http.MethodPut, "/deploy", claim(object, "", 1, transitions)); status != http.StatusOK {
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
			safety.TwoHold(t, "granted while client-go leads")
			t.FailNow()
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
			if err != nil || !safety.Rises(t, g.Fence, last) {
				t.Fatalf("round %d: %+v, %v; the last fence was %d", round, g, err, last)
			}
			last = g.Fence
			for range 20 {
				if c.try() {
					safety.TwoHold(t, "client-go leads while padlock holds")
					t.FailNow()
				}
				<-time.After(10 * time.Second)
				if _, err := store.Extend(t.Context(), r.Name, r.Token.Text(), r.TTL); err != nil {
					t.Fatal(err)
				}
			}
			if out, err := store.Release(t.Context(), r.Name, r.Token.Text(), 0); out != driver.OutcomeReleased || err != nil {
				t.Fatal(out, err)
			}
			if !c.try() {
				t.Fatal("client-go does not lead after the release")
			}
			if out, err := store.Release(t.Context(), r.Name, r.Token.Text(), 0); out == driver.OutcomeReleased || err != nil {
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
		if _, err := store.Extend(t.Context(), r.Name, r.Token.Text(), r.TTL); !errors.Is(err, driver.ErrLost) {
			t.Errorf("the dead holder: %v", err)
		}
		if !c.try() {
			t.Error("the leader has lost its term")
		}
		c.release()
		if _, err := store.Acquire(t.Context(), request("deploy")); err != nil {
			t.Errorf("after the release by the leader: %v", err)
		}
	})
}

// A leader that was stopped for longer than its lease, and then releases the lock that padlock has
// acquired since, does not open it to other processes of padlock.
func TestLateReleaseByLeader(t *testing.T) {
	shared(t, func(t *testing.T, store *register.Store, c *candidate) {
		if !c.try() {
			t.Fatal("the candidate does not lead")
		}
		held := func(host string) {
			t.Helper()
			var held *driver.HeldError
			if _, err := store.Acquire(t.Context(), request("deploy")); !errors.As(err, &held) || held.Holds[0].Host != host {
				t.Errorf("while %s holds: %v", host, err)
			}
		}
		held(c.identity)
		<-time.After(duration + time.Second)
		r := request("deploy")
		g, err := store.Acquire(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		c.release()
		held("pod-7")
		if e, err := store.Extend(t.Context(), r.Name, r.Token.Text(), r.TTL); err != nil || e.Fence != g.Fence {
			t.Errorf("the holder: %+v, %v; the fence was %d", e, err, g.Fence)
		}
		held("pod-7")
		if c.try() {
			t.Error("client-go leads after a renewal of the holder")
		}
		if out, err := store.Release(t.Context(), r.Name, r.Token.Text(), 0); out != driver.OutcomeReleased || err != nil {
			t.Error(out, err)
		}
	})
}

// The first leader of a name has not changed leaseTransitions. Its release opens the lock, even if
// padlock has written its own record into the object meanwhile.
func TestReleaseByFirstLeader(t *testing.T) {
	shared(t, func(t *testing.T, store *register.Store, c *candidate) {
		if !c.try() {
			t.Fatal("the candidate does not lead")
		}
		if out, err := store.Release(t.Context(), "deploy", request("deploy").Token.Text(), 0); out == driver.OutcomeReleased || err != nil {
			t.Fatal(out, err)
		}
		c.release()
		if _, err := store.Acquire(t.Context(), request("deploy")); err != nil {
			t.Errorf("after the release by the leader: %v", err)
		}
	})
}

// Break takes the lock from a leader, under a name that padlock has never had, too. A candidate may
// take the free name back. If padlock acquires it first, the leader cannot renew.
func TestBreakLeader(t *testing.T) {
	for _, acquire := range []bool{false, true} {
		shared(t, func(t *testing.T, store *register.Store, c *candidate) {
			if !c.try() {
				t.Fatal("the candidate does not lead")
			}
			state, err := store.Inspect(t.Context(), "deploy")
			if err != nil {
				t.Fatal(err)
			}
			if _, err := store.Break(t.Context(), "deploy", state.Fence); err != nil {
				t.Fatalf("the fence %d: %v", state.Fence, err)
			}
			if acquire {
				if _, err := store.Acquire(t.Context(), request("deploy")); err != nil {
					t.Fatal(err)
				}
			}
			if c.try() == acquire {
				t.Errorf("padlock has acquired: %v, and the leader leads: %v", acquire, !acquire)
			}
		})
	}
}

// A candidate does not tell two renewals of one second apart, and yet waits for the end of the
// later one.
func TestTwoRenewalsInOneSecond(t *testing.T) {
	shared(t, func(t *testing.T, store *register.Store, c *candidate) {
		r := request("deploy")
		r.TTL = 30*time.Second + 900*time.Millisecond
		if _, err := store.Acquire(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		if c.try() {
			safety.TwoHold(t, "client-go leads while padlock holds")
			t.FailNow()
		}
		<-time.After(900 * time.Millisecond)
		start := time.Now()
		if _, err := store.Extend(t.Context(), r.Name, r.Token.Text(), r.TTL); err != nil {
			t.Fatal(err)
		}
		for !c.try() {
			<-time.After(100 * time.Millisecond)
		}
		if took := time.Since(start); took < r.TTL {
			t.Errorf("client-go leads %v after a renewal by %v", took, r.TTL)
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
		if out, err := store.Release(t.Context(), r.Name, r.Token.Text(), keep); out != driver.OutcomeReleased || err != nil {
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

// Each renewal by a leader wakes a waiter of padlock. The page says what that costs.
func TestWaiterBehindLeader(t *testing.T) {
	inMemory(t, func(t *testing.T, f *fakes.Kubernetes, s *overhttptest.Service) {
		store, err := openShared(t.Context(), s.Front())
		if err != nil {
			t.Fatal(err)
		}
		defer store.Close()
		c := &candidate{t: t, server: f, identity: "pod-9_4711"}
		if !c.try() {
			t.Fatal("the candidate does not lead")
		}
		s.Counts()
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			_, err := store.Wait(ctx, request("deploy"), false)
			ended <- err
		}()
		for range 1800 {
			<-time.After(2 * time.Second)
			if !c.try() {
				t.Fatal("the leader does not lead any more")
			}
		}
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		if n := s.Counts(); n["read"]/10 != 180 || n["watch"]/10 != 180 || n["write"] != 0 {
			t.Errorf("an hour behind a leader costs %v", n)
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

// What other programs have written about an object stays: its labels, annotations, owners and
// finalizers. The same holds for the two fields of coordinated leader election in its spec.
func TestMetadataOfOthersStays(t *testing.T) {
	inMemory(t, func(t *testing.T, f *fakes.Kubernetes, s *overhttptest.Service) {
		store, err := openShared(t.Context(), s.Front())
		if err != nil {
			t.Fatal(err)
		}
		defer store.Close()
		theirs := fakes.Meta{
			Name: "deploy", ResourceVersion: "1", UID: "u",
			Labels:      map[string]string{"app": "shop", "app.kubernetes.io/managed-by": "Helm"},
			Annotations: map[string]string{"note": "theirs"},
			Owners:      json.RawMessage(`[{"kind":"Deployment","name":"shop"}]`), Finalizers: json.RawMessage(`["shop/keep"]`),
		}
		f.Objects["deploy"] = fakes.Object{APIVersion: "coordination.k8s.io/v1", Kind: "Lease", Metadata: theirs, Spec: map[string]any{"strategy": "OldestEmulationVersion", "preferredHolder": "pod-1"}}
		r := request("deploy")
		_, acquired := store.Acquire(t.Context(), r)
		_, extended := store.Extend(t.Context(), r.Name, r.Token.Text(), r.TTL)
		_, released := store.Release(t.Context(), r.Name, r.Token.Text(), 0)
		if err := errors.Join(acquired, extended, released); err != nil {
			t.Fatal(err)
		}
		if spec := f.Objects["deploy"].Spec; spec["strategy"] != "OldestEmulationVersion" || spec["preferredHolder"] != "pod-1" {
			t.Errorf("the spec is now %v", spec)
		}
		now := f.Objects["deploy"].Metadata
		if now.ResourceVersion == "1" || now.Labels["app"] != "shop" || now.Labels["app.kubernetes.io/managed-by"] != "Helm" ||
			now.Annotations["note"] != "theirs" || string(now.Owners) != string(theirs.Owners) || string(now.Finalizers) != string(theirs.Finalizers) {
			t.Errorf("the metadata are now %+v", now)
		}
		if len(now.Annotations) < 2 {
			t.Error("there is no record")
		}
	})
}
