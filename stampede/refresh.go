package stampede

import (
	"context"
	"errors"
	"time"
)

// A refresh renews a value in the background. At most one refresh of a key runs in this process.
// The map core.refreshing has a time for some keys. No refresh of the key begins before that time:
//
//	time of the key          meaning                             what changes it
//	none                     no refresh of the key is running    a refresh begins: the time is set to
//	                                                             one year from now
//	up to a year from now    a refresh tries the lock or has it  the refresh ends: the time is removed;
//	                                                             if another process held the lock, the
//	                                                             time is set to heldPause from now
//	heldPause or less from   another process renews the value    heldPause passes: the time is removed
//	now
//
// A refresh does not wait for the lock. It does not begin while ErrorTTL forbids to call the
// function. It does not begin either if core.refreshing already has maxBehind keys.

// heldPause is how long this process leaves a key alone after it found that another process renews
// it.
const heldPause = 50 * time.Millisecond

// refresh starts a refresh with the values of ctx, if one may begin.
func (c *core) refresh(ctx context.Context, j *job) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	if c.closed || len(c.refreshing) >= j.s.maxBehind || now.Before(c.refreshing[j.name]) || c.backingOff(j.name) != nil {
		return
	}
	c.refreshing[j.name] = now.Add(365 * 24 * time.Hour)
	c.running.Add(1)
	// The Get that begins this refresh may be called inside the function of another key. That
	// function does not wait for the refresh, so the refresh does not count as inside it.
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
