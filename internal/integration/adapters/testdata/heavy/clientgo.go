package adapters

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"github.com/padlock-go/padlock"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// candidateLock is a resourcelock.Interface: controllers in several clusters, or in none, elect one
// leader. client-go renews the lock and decides when its leader stops.
type candidateLock struct {
	locker         *padlock.Locker
	name, identity string

	mu     sync.Mutex
	held   *padlock.Lock
	record resourcelock.LeaderElectionRecord // while held
}

var locks = schema.GroupResource{Resource: "padlocks"}

func (c *candidateLock) Identity() string   { return c.identity }
func (c *candidateLock) Describe() string   { return "padlock/" + c.name }
func (c *candidateLock) RecordEvent(string) {}

func (c *candidateLock) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	record := c.record
	if !c.holds() {
		state, err := c.locker.Inspect(ctx, c.name)
		if err != nil {
			return nil, nil, err
		}
		if len(state.Holds) == 0 {
			return nil, nil, apierrors.NewNotFound(locks, c.name)
		}
		h := state.Holds[0]
		record = resourcelock.LeaderElectionRecord{
			HolderIdentity: h.Label, AcquireTime: metav1.NewTime(h.Since),
			RenewTime: metav1.NewTime(h.Until), // changes with each renewal, which client-go looks for
		}
	}
	raw, err := json.Marshal(record)
	return &record, raw, err
}

func (c *candidateLock) holds() bool { return c.held != nil && c.held.Remaining() > 0 }

func (c *candidateLock) Create(ctx context.Context, r resourcelock.LeaderElectionRecord) error {
	return c.Update(ctx, r)
}

func (c *candidateLock) Update(ctx context.Context, r resourcelock.LeaderElectionRecord) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	lease := time.Duration(r.LeaseDurationSeconds) * time.Second
	switch {
	case r.HolderIdentity == "": // ReleaseOnCancel
		return c.held.Release()
	case c.holds():
		c.record = r
		return c.held.Extend(ctx, lease)
	}
	// NoRenewal, because a leader that client-go has given up must not keep the lock.
	held, err := c.locker.TryAcquire(ctx, c.name, padlock.TTL(lease), padlock.NoRenewal(), padlock.Detached(), padlock.Label(c.identity))
	if errors.Is(err, padlock.ErrHeld) {
		return apierrors.NewConflict(locks, c.name, err)
	}
	if err == nil {
		c.held, c.record = held, r
	}
	return err
}
