package stampede

import (
	"context"
	"errors"
	"time"
)

// A refresh renews a value in the background. In this process, at most one refresh of a key runs at
// a time. The map core.refreshing says when the next refresh of a key may begin. If a key is not in
// the map, its refresh may begin at once. The map changes as follows:
//
//   - When a refresh begins, the time of its key is set to one year from now, so that no second
//     refresh of the key begins.
//   - When the refresh ends, the key is removed.
//   - But if another process had the lock, that process renews the value. Then the time of the key
//     is set to heldPause from now, and the key is removed when that time has come.
//
// A refresh does not wait for the lock. It does not begin in two cases: if the function failed less
// than ErrorTTL ago, or if core.refreshing already has maxBehind keys.

// heldPause is how long this process leaves a key alone after it found that another process renews
// it.
const heldPause = 50 * time.Millisecond

// refresh starts a refresh of the job's key, unless the rules above forbid it. The context of the
// refresh has the values of ctx, but does not end with ctx.
func (c *core) refresh(ctx context.Context, j *job) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	if c.closed || len(c.refreshing) >= j.s.maxBehind || now.Before(c.refreshing[j.name]) || c.backingOff(j.name) != nil {
		return
	}
	c.refreshing[j.name] = now.Add(365 * 24 * time.Hour)
	c.running.Add(1)
	// The Get that begins this refresh may have been called by a function that computes the value
	// of another key. The context of that Get then names the other key. The refresh gets a context
	// without that key, because the function of the other key does not wait for the refresh.
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
