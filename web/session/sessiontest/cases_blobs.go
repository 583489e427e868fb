package sessiontest

import (
	"bytes"
	"errors"
	"fmt"
	"time"

	"github.com/padlock-go/padlock/web/session/sessionstore"
)

var blobCases = []blobCase{
	{"swap", swaps}, {"swap/changed", swapChanged}, {"swap/empty", swapEmpty}, {"remove", removes},
	{"touch", touchesBlob}, {"touch/tombstone", touchTombstone},
}

func swaps(c *blobCheck) {
	if _, err := c.a.Get(c.ctx, c.key); !errors.Is(err, sessionstore.ErrNotFound) {
		c.errorf("Get where there is nothing: %v, want ErrNotFound", err)
	}
	data := []byte("a\x00\xff\r\n'\"")
	one := c.swap(c.key, nil, data, long)
	if !bytes.Equal(one.Data, data) || one.TTL <= 0 || one.TTL > long {
		c.errorf("there is %q for %v, want %q for %v", one.Data, one.TTL, data, long)
	}
	two := c.swap(c.key, &one, []byte("b"), 0)
	if string(two.Data) != "b" || two.TTL != 0 {
		c.errorf("there is %q for %v, want b for ever", two.Data, two.TTL)
	}
	c.a.Remove(c.ctx, c.key, nil)
}

// swapChanged: Swap must not overwrite a value that has changed since it was read.
func swapChanged(c *blobCheck) {
	old := c.swap(c.key, nil, []byte("a"), long)
	if done, now, err := c.b.Swap(c.ctx, c.key, nil, []byte("x"), long); done || err != nil || now == nil || string(now.Data) != "a" {
		c.errorf("Swap over a value, where none was expected: %v %v %v", done, now, err)
	}
	c.swap(c.key, &old, []byte("b"), long)
	done, now, err := c.b.Swap(c.ctx, c.key, &old, []byte("x"), long)
	if done || err != nil || now == nil || string(now.Data) != "b" {
		c.errorf("Swap over a value that was changed: %v %v %v", done, now, err)
	}
	if got := c.get(c.key); string(got.Data) != "b" {
		c.errorf("there is %q, want b", got.Data)
	}
	c.a.Remove(c.ctx, c.key, nil)
	if done, now, err := c.b.Swap(c.ctx, c.key, now, []byte("x"), long); done || err != nil || now != nil {
		c.errorf("Swap over a value that was removed: %v %v %v", done, now, err)
	}
}

// swapEmpty: a PHP session without keys has no bytes, and must still be kept.
func swapEmpty(c *blobCheck) {
	for i, empty := range [][]byte{nil, {}} {
		key := fmt.Sprint(c.key, i)
		full := c.swap(key, nil, []byte("a"), long)
		now := c.swap(key, &full, empty, long)
		if len(now.Data) != 0 {
			c.errorf("there is %q, want nothing", now.Data)
		}
		full = c.swap(key, &now, []byte("b"), long)
		now = c.swap(key, &full, empty, long)
		if done, err := c.b.Remove(c.ctx, key, &now); !done || err != nil {
			c.errorf("Remove of an empty value: %v %v", done, err)
		}
		c.swap(key, nil, empty, long)
	}
}

func removes(c *blobCheck) {
	old := c.swap(c.key, nil, []byte("a"), long)
	c.swap(c.key, &old, []byte("b"), long)
	if done, err := c.b.Remove(c.ctx, c.key, &old); done || err != nil || string(c.get(c.key).Data) != "b" {
		c.errorf("Remove of a value that was changed: %v %v", done, err)
	}
	if done, err := c.b.Remove(c.ctx, c.key, nil); !done || err != nil {
		c.errorf("Remove of any value: %v %v", done, err)
	}
	if done, err := c.b.Remove(c.ctx, c.key, nil); done || err != nil {
		c.errorf("Remove where there is nothing: %v %v", done, err)
	}
}

func touchesBlob(c *blobCheck) {
	c.swap(c.key, nil, []byte("a"), long)
	if err := c.b.Touch(c.ctx, c.key, 3*long); err != nil || c.get(c.key).TTL <= 2*long {
		c.errorf("Touch: %v, it lives for %v", err, c.get(c.key).TTL)
	}
	if err := c.b.Touch(c.ctx, c.key, 0); err != nil || c.get(c.key).TTL != 0 {
		c.errorf("Touch with 0: %v, it lives for %v", err, c.get(c.key).TTL)
	}
	if err := c.b.Touch(c.ctx, c.key, c.Expire); err != nil {
		c.errorf("Touch: %v", err)
	}
	c.eventually("the value has expired", func() bool {
		_, err := c.a.Get(c.ctx, c.key)
		return errors.Is(err, sessionstore.ErrNotFound)
	})
	if err := c.b.Touch(c.ctx, c.key, long); err != nil {
		c.errorf("Touch where there is nothing: %v", err)
	}
	if _, err := c.a.Get(c.ctx, c.key); !errors.Is(err, sessionstore.ErrNotFound) {
		c.errorf("after Touch where there was nothing: %v, want ErrNotFound", err)
	}
}

func touchTombstone(c *blobCheck) {
	old := c.swap(c.key, nil, []byte(sessionstore.TombstonePrefix+"abc"), long)
	for _, ttl := range []time.Duration{3 * long, 0} {
		if err := c.b.Touch(c.ctx, c.key, ttl); err != nil || c.get(c.key).TTL > old.TTL || c.get(c.key).TTL == 0 {
			c.errorf("Touch of a tombstone: %v, it lives for %v", err, c.get(c.key).TTL)
		}
	}
}
