package stampede

import (
	"context"
	"errors"
	"time"
)

// A refresh renews a value in the background. In this process, at most one refresh of a key runs at
// a time. If a key is in the map core.refreshing, no refresh of that key may begin before the time
// in the map:
//
//   - When a refresh begins, it sets the time of its key to a year from now.
//   - When the refresh ends, it removes the key from the map.
//   - If the refresh found that another process renews the value, it instead sets the time to
//     heldPause from now.
//
// A refresh does not wait for the lock. It does not begin if the function failed less than ErrorTTL
// ago, or if core.refreshing already has maxBehind keys.

// heldPause is how long this process leaves a key alone after it found that another process renews
// it.
const heldPause = 50 * time.Millisecond

// maxBehind is how many values a Cache renews in the background at the same time.
const maxBehind = 64

// refresh starts a refresh of the job's key, unless the rules above forbid it. The context of the
// refresh has the values of ctx, but does not end with ctx.
func (c *core) refresh(ctx context.Context, j *job) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	if c.closed || len(c.refreshing) >= maxBehind || now.Before(c.refreshing[j.name]) || c.backingOff(j.name) != nil {
		return
	}
	c.refreshing[j.name] = now.Add(365 * 24 * time.Hour)
	c.running.Add(1)
	// Get may have been called by the function for another key. Then ctx contains the name of that
	// key (see inside). The refresh drops the name, because that function does not wait for it.
	ctx = context.WithValue(context.WithoutCancel(ctx), insideKey{}, (*inside)(nil))
	go j.renew(ctx)
}

// renew runs in the refresh's goroutine.
func (j *job) renew(ctx context.Context) {
	defer j.c.running.Done()
	held := false
	defer func() { j.c.refreshed(j.name, held) }()
	ctx, stop := join(ctx, j.c.ctx)
	defer stop()
	_, err := j.fill(ctx, false)
	var remote *RemoteError
	if held = errors.Is(err, errElsewhere); held || errors.As(err, &remote) || ctx.Err() != nil {
		return // another process makes the value and reports its errors, or ctx has ended
	}
	j.s.report(ctx, j.key, err)
}

func (c *core) refreshed(name string, held bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.refreshing, name)
	if held {
		c.refreshing[name] = time.Now().Add(heldPause)
		time.AfterFunc(heldPause, func() {
			c.mu.Lock()
			defer c.mu.Unlock()
			if until, ok := c.refreshing[name]; ok && !time.Now().Before(until) {
				delete(c.refreshing, name)
			}
		})
	}
}
