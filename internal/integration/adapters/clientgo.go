//go:build clientgo

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

// candidateLock is a resourcelock.Interface: controllers in several clusters elect one leader.
// client-go renews the lock and decides when its leader stops.
type candidateLock struct {
	locker         *padlock.Locker
	name, identity string

	mu     sync.Mutex
	held   *padlock.Lock                     // nil before the first term and after a release
	record resourcelock.LeaderElectionRecord // while held
	lost   time.Time                         // when the end of held was noticed
}

var locks = schema.GroupResource{Resource: "padlocks"}

func (c *candidateLock) Identity() string   { return c.identity }
func (c *candidateLock) Describe() string   { return "padlock/" + c.name }
func (c *candidateLock) RecordEvent(string) {}

func (c *candidateLock) holds() bool { return c.held != nil && c.held.Remaining() > 0 }

// Get returns the record of the leader. Of another leader, some fields are empty.
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

func (c *candidateLock) Create(ctx context.Context, r resourcelock.LeaderElectionRecord) error {
	return c.Update(ctx, r)
}

// Update takes, renews or releases the lock. A leader that has lost the lock does not get it again
// in the same term: another one may have led meanwhile.
func (c *candidateLock) Update(ctx context.Context, r resourcelock.LeaderElectionRecord) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	lease := time.Duration(r.LeaseDurationSeconds) * time.Second
	switch {
	case r.HolderIdentity == "": // ReleaseOnCancel
		return c.release()
	case c.holds():
		err := c.held.Extend(ctx, lease)
		if err == nil {
			c.record = r
		}
		return err
	case c.held == nil:
		return c.take(ctx, lease, r)
	case c.lost.IsZero():
		c.lost = time.Now()
	case time.Since(c.lost) > lease: // the term is over: RenewDeadline is shorter
		return c.take(ctx, lease, r)
	}
	return apierrors.NewConflict(locks, c.name, padlock.ErrLost)
}

// take uses NoRenewal, because a leader that client-go has given up must not keep the lock.
func (c *candidateLock) take(ctx context.Context, lease time.Duration, r resourcelock.LeaderElectionRecord) error {
	held, err := c.locker.TryAcquire(ctx, c.name, padlock.TTL(lease), padlock.NoRenewal(), padlock.Detached(), padlock.Label(c.identity))
	if errors.Is(err, padlock.ErrHeld) {
		return apierrors.NewConflict(locks, c.name, err)
	} else if err == nil {
		c.held, c.record, c.lost = held, r, time.Time{}
	}
	return err
}

func (c *candidateLock) release() error {
	held := c.held
	if c.held = nil; held == nil {
		return nil
	}
	return held.Release()
}
