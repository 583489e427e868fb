package sessiontest

import (
	"bytes"
	"errors"
	"fmt"
	"time"

	"github.com/padlock-go/padlock/session/phpsession"
	"github.com/padlock-go/padlock/session/sessionstore"
)

var blobCases = []blobCase{
	{"swap", swaps}, {"swap/changed", swapChanged}, {"swap/empty", swapEmpty}, {"remove", removes},
	{"touch", touchesBlob}, {"touch/tombstone", touchTombstone},
	{"mover dies", moverDies(sessionstore.Packed(), sessionstore.Traits{})},
	{"mover dies/php", moverDies(phpsession.Format("php"), sessionstore.Traits{NoDeadline: true, CommitsNeedLock: true})},
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

// moverDies tests that a process dies while it gives a session a new id. It tries this with a death
// before and after each request to the store, and checks what is left. Normally, either the session
// is unchanged, or there is a tombstone with the new key. If tombstones have keys of their own,
// both the session and the tombstone may be missing.
//
// Afterwards, changeAgain changes what is left.
func moverDies(format sessionstore.Format, traits sessionstore.Traits) func(*blobCheck) {
	return func(c *blobCheck) {
		after := func(m *mortal, key string) (*movedSession, error) {
			r := &movedSession{c, sessionstore.FromBlobs(c.b, format, traits), c.key + key, traits.CommitsNeedLock}
			return r, r.move(sessionstore.FromBlobs(m, format, traits))
		}
		lives := &mortal{BlobStore: c.a, left: 1000}
		if _, err := after(lives, ".lives"); err != nil {
			c.failf("a move: %v", err)
		}
		c.crowd(6*(1000-lives.left), func(i int) {
			r, _ := after(&mortal{BlobStore: c.a, left: 1 + i/6, late: i%2 == 1}, fmt.Sprint(".", i))
			r.changeAgain(i % 6 / 2)
		})
	}
}

// movedSession is a session that a test has moved. The process that moved it may have died before
// the move was complete.
type movedSession struct {
	*blobCheck
	store  sessionstore.Store
	key    string
	beside bool
}

func (r *movedSession) op() sessionstore.Op {
	return sessionstore.Op{Kind: sessionstore.OpPut, Key: "n", Value: []byte("i:1;")}
}

// move creates the session and then gives it a new id. For the second step it uses the store mover,
// which may stop working before the session has moved completely.
func (r *movedSession) move(mover sessionstore.Store) error {
	made, err := r.store.Commit(r.ctx, r.key, sessionstore.Change{Create: true, TTL: long, Ops: []sessionstore.Op{r.op()}})
	if err != nil {
		r.failf("%v", err)
	}
	to := sessionstore.Moved{To: r.key + "-first", At: time.Now().Truncate(time.Millisecond)}
	_, err = mover.Commit(r.ctx, r.key, sessionstore.Change{Version: made.Version, Move: to, TTL: long})
	rec, errLoad := r.store.Load(r.ctx, r.key)
	switch {
	case errors.Is(errLoad, sessionstore.ErrNotFound) && r.beside && err != nil:
	case errLoad != nil:
		r.failf("%s: Load: %v (the mover: %v)", r.key, errLoad, err)
	case err == nil && rec.Moved.To != to.To, rec.Moved.To != "" && rec.Moved.To != to.To:
		r.errorf("%s: Load reports %q, and it moved to %q", r.key, rec.Moved.To, to.To)
	case len(rec.Fields) != 1 || string(rec.Fields[0].Value) != "i:1;":
		r.errorf("%s: there is %q", r.key, rec.Fields)
	}
	return err
}

// changeAgain(0) moves the session again, and changeAgain(1) destroys it. changeAgain(2) removes
// only the value at the session's key, as a program other than padlock does.
func (r *movedSession) changeAgain(what int) {
	rec, err := r.store.Load(r.ctx, r.key)
	alive := err == nil && rec.Moved.To == ""
	switch what {
	case 0:
		to := sessionstore.Moved{To: r.key + "-second", At: time.Now().Truncate(time.Millisecond)}
		_, err := r.store.Commit(r.ctx, r.key, sessionstore.Change{Move: to, TTL: long})
		if after, _ := r.store.Load(r.ctx, r.key); alive && (err != nil || !sameMove(after.Moved, to)) {
			r.errorf("%s: a second move: %v, and Load reports %q", r.key, err, after.Moved.To)
		}
	case 1:
		moved, err := r.store.Delete(r.ctx, r.key)
		if err != nil || moved.To != rec.Moved.To {
			r.errorf("%s: Delete: %q, %v; want %q", r.key, moved.To, err, rec.Moved.To)
		}
		r.gone()
	case 2:
		if _, err := r.b.Remove(r.ctx, r.key, nil); err != nil {
			r.failf("%v", err)
		}
		if alive {
			r.gone()
		}
	}
}

func (r *movedSession) gone() {
	if rec, err := r.store.Load(r.ctx, r.key); !errors.Is(err, sessionstore.ErrNotFound) {
		r.errorf("%s: the session was removed, and Load reports %q %v", r.key, rec.Moved.To, err)
	}
}
