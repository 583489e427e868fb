package stampede

import (
	"context"
	"errors"
	"time"
)

// A refresh renews a value in the background. Its states, by key:
//
//	core.refreshing  what it means                          next
//	absent            nothing is under way                   far ahead
//	far ahead         a refresh tries the lock or has it     absent, or a moment ahead
//	                                                         if the lock was held
//	a moment ahead    another process renews it: leave the   absent, after heldPause
//	                  key alone
//
// A refresh does not wait for the lock. It does not begin while ErrorTTL forbids to call the
// function, nor while maxBehind other refreshes are under way.

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
	// This marks the goroutine as independent: a function that runs meanwhile does not wait for the
	// refresh.
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
		return // errors of other processes are reported there
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
