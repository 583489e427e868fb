//go:build clientgo

package adapters

import (
	"context"
	"errors"
	"net/http"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/padlock-go/padlock"
	coordination "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	leases "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// candidate stands for election until ctx ends. says gets "leads" and "stopped".
func candidate(ctx context.Context, lock resourcelock.Interface, says func(string)) {
	leaderelection.RunOrDie(ctx, leaderelection.LeaderElectionConfig{
		Lock: lock, LeaseDuration: 4 * time.Second, RenewDeadline: 2 * time.Second, RetryPeriod: 200 * time.Millisecond,
		ReleaseOnCancel: true,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(ctx context.Context) { says("leads"); <-ctx.Done() },
			OnStoppedLeading: func() { says("stopped") },
		},
	})
}

func init() { roles["clientgo"] = runCandidate }

// runCandidate is a controller that dies when the test says so.
func runCandidate(p *process) error {
	go candidate(context.Background(), &candidateLock{locker: p.locker, name: "controller", identity: "pod-1"}, p.say)
	p.next()
	os.Exit(0) // without a release
	return nil
}

// stand is a candidate in the process of the test.
func stand(t *testing.T, lock resourcelock.Interface) (said <-chan string, end func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	says, done := make(chan string, 10), make(chan struct{})
	go func() { defer close(done); candidate(ctx, lock, func(s string) { says <- s }) }()
	t.Cleanup(func() { cancel(); <-done })
	return says, cancel
}

func expect(t *testing.T, said <-chan string, want string) {
	t.Helper()
	select {
	case got := <-said:
		if got != want {
			t.Fatalf("%q, want %q", got, want)
		}
	case <-time.After(time.Minute):
		t.Fatalf("nothing, want %q", want)
	}
}

// The leader in another process dies: a candidate leads when its lease is over. It is cancelled,
// and the next one leads at once.
func TestClientGoElection(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, url, dir string) {
		dying := start(t, "clientgo", url, dir)
		if got := dying.hear(); got != "leads" {
			t.Fatal(got)
		}
		l := newLocker(t, url)
		second, end := stand(t, &candidateLock{locker: l, name: "controller", identity: "pod-2"})
		if record, _, err := (&candidateLock{locker: l, name: "controller"}).Get(t.Context()); err != nil || record.HolderIdentity != "pod-1" {
			t.Errorf("%+v, %v", record, err)
		}
		dying.tell("die")
		expect(t, second, "leads")
		third, _ := stand(t, &candidateLock{locker: newLocker(t, url), name: "controller", identity: "pod-3"})
		end()
		expect(t, second, "stopped")
		expect(t, third, "leads")
	})
}

// The lock of a leader is broken, and another process leads for a moment. The leader stops.
func TestClientGoLoss(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, url, _ string) {
		leader, _ := stand(t, &candidateLock{locker: newLocker(t, url), name: "controller", identity: "pod-1"})
		expect(t, leader, "leads")
		other := newLocker(t, url)
		for { // the fence may be that of a lock before
			state, err := other.Inspect(t.Context(), "controller")
			if err == nil {
				_, err = other.Break(t.Context(), "controller", state.Fence)
			}
			if err == nil {
				break
			} else if !errors.Is(err, padlock.ErrLost) {
				t.Fatal(err)
			}
		}
		if err := other.Do(t.Context(), "controller", func(context.Context) error { return nil }); err != nil {
			t.Error(err)
		}
		expect(t, leader, "stopped")
	})
}

// cluster keeps one Lease, as the API of Kubernetes does.
type cluster struct {
	leases.LeaseInterface
	mu    sync.Mutex
	lease *coordination.Lease
	n     int // changes
}

var leaseResource = coordination.Resource("leases")

func (c *cluster) Leases(string) leases.LeaseInterface { return c }

func (c *cluster) Get(context.Context, string, metav1.GetOptions) (*coordination.Lease, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.lease == nil {
		return nil, apierrors.NewNotFound(leaseResource, "controller")
	}
	return c.lease.DeepCopy(), nil
}

func (c *cluster) put(l *coordination.Lease) *coordination.Lease {
	c.n++
	c.lease = l.DeepCopy()
	c.lease.ResourceVersion = strconv.Itoa(c.n)
	return c.lease.DeepCopy()
}

func (c *cluster) Create(_ context.Context, l *coordination.Lease, _ metav1.CreateOptions) (*coordination.Lease, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.lease != nil {
		return nil, apierrors.NewAlreadyExists(leaseResource, l.Name)
	}
	return c.put(l), nil
}

func (c *cluster) Update(_ context.Context, l *coordination.Lease, _ metav1.UpdateOptions) (*coordination.Lease, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.lease == nil || c.lease.ResourceVersion != l.ResourceVersion {
		return nil, &apierrors.StatusError{ErrStatus: metav1.Status{Code: http.StatusConflict, Reason: metav1.StatusReasonConflict}}
	}
	return c.put(l), nil
}

// With client-go's own LeaseLock, a leader does not learn that another one has led meanwhile: its
// term goes on.
func TestTheLockOfClientGo(t *testing.T) {
	t.Parallel()
	api := &cluster{}
	leader, _ := stand(t, &resourcelock.LeaseLock{
		LeaseMeta: metav1.ObjectMeta{Namespace: "shop", Name: "controller"},
		Client:    api, LockConfig: resourcelock.ResourceLockConfig{Identity: "pod-1"},
	})
	expect(t, leader, "leads")
	api.mu.Lock()
	nobody := ""
	forced := api.lease.DeepCopy() // as after kubectl delete lease, and a short term of another one
	forced.Spec.HolderIdentity = &nobody
	api.put(forced)
	api.mu.Unlock()
	for { // until the leader has the Lease again
		l, err := api.Get(t.Context(), "", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if l.Spec.HolderIdentity != nil && *l.Spec.HolderIdentity == "pod-1" {
			break
		}
	}
	if len(leader) > 0 {
		t.Errorf("the leader of client-go has %s", <-leader)
	}
}
