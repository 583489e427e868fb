package sessiontest

import (
	"slices"
	"strconv"
	"time"

	"github.com/padlock-go/padlock/web/session/sessionstore"
)

// ofIndex returns a case for stores that are an Index, which not every store has to be.
func ofIndex(f func(c *check, a, b sessionstore.Index)) func(*check) {
	return func(c *check) {
		a, okA := c.a.(sessionstore.Index)
		b, okB := c.b.(sessionstore.Index)
		if okA && okB {
			f(c, a, b)
		}
	}
}

func (c *check) note(x sessionstore.Index, user, key string, ttl time.Duration) {
	if err := x.Note(c.ctx, user, key, ttl); err != nil {
		c.failf("Note: %v", err)
	}
}

func (c *check) noted(x sessionstore.Index, user string, want ...string) {
	got, err := x.Noted(c.ctx, user)
	slices.Sort(got)
	if slices.Sort(want); err != nil || !slices.Equal(got, want) {
		c.errorf("Noted returns %q, %v, want %q", got, err, want)
	}
}

// indexFinds: a key is found by its user, once, and in all processes.
func indexFinds(c *check, a, b sessionstore.Index) {
	ann, bob := c.key+"a", c.key+"b"
	c.noted(a, ann)
	c.note(a, ann, "one", long)
	c.note(b, ann, "two", 0)
	c.note(b, ann, "one", 2*long)
	c.note(a, bob, "three", long)
	c.noted(b, ann, "one", "two")
	c.noted(b, bob, "three")
	if err := a.Forget(c.ctx, c.key+"c", []string{"one"}); err != nil {
		c.errorf("Forget for a user without sessions: %v", err)
	}
}

// indexEnds: a key with a short lifetime does not shorten the lifetimes of others.
func indexEnds(c *check, a, b sessionstore.Index) {
	c.note(a, c.key, "long", long)
	c.note(a, c.key, "short", time.Millisecond)
	c.note(a, c.key+"b", "for ever", 0)
	c.note(a, c.key+"b", "short", time.Millisecond)
	<-time.After(c.Expire)
	for user, key := range map[string]string{c.key: "long", c.key + "b": "for ever"} {
		if keys, err := b.Noted(c.ctx, user); err != nil || !slices.Contains(keys, key) {
			c.errorf("Noted returns %q, %v, and %q is missing", keys, err, key)
		}
	}
}

// indexForgets: a key that was noted a moment ago is kept, because its session may be about to be
// written.
func indexForgets(c *check, a, b sessionstore.Index) {
	c.note(a, c.key, "one", long)
	if err := b.Forget(c.ctx, c.key, []string{"one"}); err != nil {
		c.errorf("Forget: %v", err)
	}
	c.noted(a, c.key, "one")
}

// indexCrowd: keys that are noted at once are all kept.
func indexCrowd(c *check, a, b sessionstore.Index) {
	const n = 20
	var want []string
	for i := range n {
		want = append(want, strconv.Itoa(i))
	}
	c.crowd(n, func(i int) { c.note([]sessionstore.Index{a, b}[i%2], c.key, want[i], long) })
	c.noted(a, c.key, slices.Clone(want)...)
}
