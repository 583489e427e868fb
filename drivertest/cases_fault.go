package drivertest

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/padlock-go/padlock/driver"
)

var faultCases = []testCase{
	{
		name:   "lost-reply/own-hold",
		clause: "An Acquire whose reply was lost returns ErrUncertain and never a *HeldError (or the store itself repeats the request). If the caller repeats the request, the same token is granted; after ErrSpent, a new token is granted. An Extend whose reply was lost returns neither ErrLost nor ErrExpired, and the hold stays live. A Release whose reply was lost returns an error or the true outcome, and after another Release the name is free.",
		needs:  []need{loseReply},
		f:      repliesLost,
	},
	{
		name:   "cut/unavailable",
		clause: "A store that could not be reached returns ErrUnavailable, ErrUncertain or the client's error, and never reports a free name as held. ErrUnavailable also says that nothing was changed.",
		needs:  []need{cut},
		f: func(c *check) {
			cl := c.openAnother()
			for range 5 {
				r := c.request(c.newName())
				c.cut(cl)
				_, err := cl.Acquire(c.ctx, r)
				c.mustNotBe(err, "Acquire of a free name over a broken connection", driver.ErrHeld, driver.ErrLost)
				if errors.Is(err, driver.ErrUnavailable) {
					c.take(c.b, c.request(r.Name), "after another process got ErrUnavailable")
				}
			}
		},
	},
	{
		name:   "cut/unbound",
		clause: "A hold that is bound to nothing outlives the connection.",
		needs:  []need{cut, not(bound)},
		f: func(c *check) {
			cl := c.openAnother()
			l := c.take(cl, c.request(c.newName()), "of a free name")
			c.cut(cl)
			c.mustRefuse(c.b, c.request(l.req.Name), "of a held name, after the holder's connection was cut", l)
			c.livesOn(l, "after the holder's connection was cut")
		},
	},
	{
		name:   "cut/bound",
		clause: "A hold that is bound to a connection ends with it: Grant.Bound ends within LossDelay, with a cause, Extend returns ErrLost, and the name becomes free.",
		needs:  []need{cut, connected},
		f: func(c *check) {
			cl := c.openAnother()
			l := c.take(cl, c.request(c.newName()), "of a free name")
			c.cut(cl)
			c.boundEnds(l, "the connection was cut")
			err := c.extendGone(cl, l.req.Name, l.req.Token.Text(), "after the connection was cut")
			c.wantLost(err, "Extend after the connection was cut")
			c.takeSoon(c.b, c.request(l.req.Name), "after the holder's connection was cut")
		},
	},
	{
		name:   "silence/returns",
		clause: "Every method except Wait returns within MaxSilence if the server is silent, even if ctx never ends, and the error is neither a refusal nor a loss.",
		needs:  []need{pause},
		f: func(c *check) {
			l := c.take(c.a, c.request(c.newName()), "of a free name")
			resume := c.pause()
			free, done := c.request(c.newName()), make(chan error, 3)
			ctx := context.WithoutCancel(c.ctx)
			go func() { _, err := c.a.Acquire(ctx, free); done <- err }()
			go func() { _, err := c.a.Extend(ctx, l.req.Name, l.req.Token.Text(), c.long()); done <- err }()
			go func() { _, err := c.b.Release(ctx, c.stem, newToken(), 0); done <- err }()
			c.nap(driver.MaxSilence)
			for range 3 {
				err := await(c, done, "a request to a silent server")
				if err == nil {
					c.failf("a request to a silent server was answered")
				}
				if c.g.Bound == driver.BoundToNothing {
					c.mustNotBe(err, "a request to a silent server", driver.ErrHeld, driver.ErrLost, driver.ErrExpired)
				}
			}
			resume()
			c.recovers("after the server was silent for a while")
		},
	},
	{
		name:   "silence/bound",
		clause: "The store watches its connection itself: Grant.Bound ends within LossDelay even if the server is only silent.",
		needs:  []need{pause, connected},
		f: func(c *check) {
			cl := c.openAnother()
			l := c.take(cl, c.request(c.newName()), "of a free name")
			resume := c.pause()
			c.boundEnds(l, "the server fell silent")
			resume()
			c.recovers("after the server was silent for a while")
		},
	},
	{
		name:   "restart/keeps-holds",
		clause: "A store with SurvivesRestart in its Guarantees keeps its holds when the server restarts.",
		needs:  []need{restart, survives},
		f: func(c *check) {
			l := c.take(c.a, c.request(c.newName()), "of a free name")
			c.restart(true)
			c.livesOn(l, "after a restart")
			err := c.answered(func() error {
				_, err := c.b.Extend(c.ctx, l.req.Name, newToken(), 0)
				return err
			})
			if !isLoss(err) {
				c.failf("Extend with an unknown token, after a restart: %v", orGranted(err))
			}
			c.mustRefuse(c.b, c.request(l.req.Name), "of a held name, after a restart", l)
		},
	},
}

func repliesLost(c *check) {
	cl, r := c.openAnother(), c.request(c.newName())
	err := c.withLostReply(cl, func(ctx context.Context) error { _, err := cl.Acquire(ctx, r); return err })
	c.mustNotBe(err, "Acquire whose reply was lost", driver.ErrHeld, driver.ErrUnavailable)
	l := c.repeatRequest(cl, r, errors.Is(err, driver.ErrSpent))
	c.mustRefuse(c.b, c.request(r.Name), "of a name that was taken twice by one token", l)
	if c.g.Bound == driver.BoundToNothing {
		err = c.withLostReply(cl, func(ctx context.Context) error {
			_, err := cl.Extend(ctx, r.Name, l.req.Token.Text(), c.long())
			return err
		})
		c.mustNotBe(err, "Extend whose reply was lost", driver.ErrLost, driver.ErrExpired)
		c.livesOn(l, "after an Extend whose reply was lost")
	}
	err = c.withLostReply(cl, func(ctx context.Context) error {
		o, err := cl.Release(ctx, r.Name, l.req.Token.Text(), 0)
		if err == nil && o != driver.OutcomeReleased && o != driver.OutcomeGone {
			c.errorf("Release whose reply was lost returns %q", o)
		}
		return err
	})
	c.mustNotBe(err, "Release whose reply was lost", driver.ErrUnavailable)
	if err != nil { // the server may have been too slow to carry out the request
		err = c.answered(func() error {
			_, err := l.cl.Release(c.ctx, l.req.Name, l.req.Token.Text(), 0)
			return err
		})
	}
	if err != nil {
		c.failf("another Release, after the reply to the first one was lost: no answer within %v: %v", c.patience, err)
	}
	c.takeSoon(c.b, c.request(r.Name), "after a Release whose reply was lost")
}

// withLostReply makes one request and loses its reply.
func (c *check) withLostReply(cl *client, f func(context.Context) error) error {
	if err := c.h.LoseReply(cl.store); err != nil {
		c.failf("Harness.LoseReply: %v", err)
	}
	ctx, cancel := context.WithTimeout(c.ctx, time.Second)
	defer cancel()
	err := f(ctx)
	if errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, driver.ErrUncertain) {
		c.notProven(false, "the request was not sent within a second: %v", err)
	}
	return err
}

// mustNotBe checks that err is none of the listed errors. Each listed error claims something that
// the store cannot know, for example that the request changed nothing.
func (c *check) mustNotBe(err error, what string, no ...error) {
	for _, n := range no {
		if errors.Is(err, n) {
			c.failf("%s returns %q: %s", what, n.Error(), err.Error()) // no machine is too slow for the right error
		}
	}
}

func (c *check) cut(cl *client) {
	if err := c.h.CutConnection(cl.store); err != nil {
		c.failf("Harness.CutConnection: %v", err)
	}
}

// pause makes the server silent until the returned function is called or the case ends.
func (c *check) pause() func() {
	resume, err := c.h.Pause()
	if err != nil {
		c.failf("Harness.Pause: %v", err)
	}
	once := sync.OnceFunc(func() {
		if err := resume(); err != nil {
			c.errorf("resume of Harness.Pause: %v", err)
		}
	})
	c.later(once)
	return once
}

func (c *check) restart(keepData bool) {
	if err := c.h.Restart(keepData); err != nil {
		c.failf("Harness.Restart(%v): %v", keepData, err)
	}
}

// afterFault repeats the request until the store can be reached again and grants the name.
func (c *check) afterFault(cl *client, r driver.Request, when string) *lease {
	var l *lease
	var err error
	granted := c.poll(c.patience, func() bool {
		if l, err = c.try(cl, r); errors.Is(err, driver.ErrHeld) {
			r.Token = driver.TokenOf(newToken())
		}
		return err == nil
	})
	if !granted {
		c.failf("Acquire %s: not granted within %v: %v", when, c.patience, err)
	}
	return l
}

// recovers waits until the stores that the cases share can be reached again. Otherwise the next
// case would find a store that has not noticed yet that the server is back.
func (c *check) recovers(when string) {
	for _, cl := range []*client{c.a, c.b} {
		c.afterFault(cl, c.request(c.newName()), when)
	}
}

// repeatRequest repeats a request until its outcome is known.
func (c *check) repeatRequest(cl *client, r driver.Request, spent bool) *lease {
	var l *lease
	var err error
	c.poll(c.patience, func() bool {
		if spent {
			r.Token = driver.TokenOf(newToken())
		}
		l, err = c.try(cl, r)
		spent = spent || errors.Is(err, driver.ErrSpent)
		// A new token may get ErrHeld for a moment, because of the old token. Then try again.
		return err == nil || errors.Is(err, driver.ErrHeld) && !spent
	})
	if err != nil {
		c.failf("the same request, repeated after the first reply was lost: it must be granted, got: %v", err)
	}
	return l
}

// livesOn repeats Extend until the store can be reached again, and checks that l is live.
func (c *check) livesOn(l *lease, when string) {
	err := c.answered(func() error {
		_, err := l.cl.Extend(c.ctx, l.req.Name, l.req.Token.Text(), 0)
		return err
	})
	if err != nil {
		c.failf("Extend with ttl 0 %s: the hold must be live, got: %v", when, err)
	}
}

func (c *check) boundEnds(l *lease, why string) {
	select {
	case <-l.grant.Bound.Done():
	case <-time.After(c.g.LossDelay + c.patience):
		c.failf("Grant.Bound had not ended %v after %s", c.g.LossDelay+c.patience, why)
	}
	if context.Cause(l.grant.Bound) == nil {
		c.failf("Grant.Bound ended without a cause")
	}
}
