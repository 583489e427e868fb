package zkstore

import (
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/storekit"
)

// maxParallel is how many calls forEach runs at the same time.
const maxParallel = 64

// forEach calls f for each number from 0 to n-1, many of them at the same time, and returns the
// first error.
func forEach(n int, f func(i int) error) (firstErr error) {
	var wg sync.WaitGroup
	var mu sync.Mutex
	slots := make(chan struct{}, maxParallel)
	for i := range n {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			if err := f(i); err != nil {
				mu.Lock()
				defer mu.Unlock()
				if firstErr == nil {
					firstErr = err
				}
			}
		})
	}
	wg.Wait()
	return firstErr
}

// describe reads the nodes of holders. It leaves out nodes that were deleted in the meantime.
func (ss *session) describe(dir string, nodes []node) ([]driver.Hold, error) {
	found := make([]*driver.Hold, len(nodes))
	err := forEach(len(nodes), func(i int) error {
		err := ss.retryRequest(func() error {
			text, stat, err := ss.conn.Get(join(dir, nodes[i].String()))
			if err == nil {
				h := describe(nodes[i], decode(text), stat)
				found[i] = &h
			}
			return err
		})
		if err == zk.ErrNoNode {
			return nil
		}
		return err
	})
	var out []driver.Hold
	for _, h := range found {
		if h != nil {
			out = append(out, *h)
		}
	}
	return out, err
}

// describe converts the node of a holder to a driver.Hold. It sets the field Since only if the
// holder did not wait. A waiter makes its node when it begins to wait, so the node does not show
// since when the waiter has had the lock.
func describe(n node, d data, stat *zk.Stat) driver.Hold {
	if n.kind == foreign {
		return driver.Hold{Foreign: true, Since: time.UnixMilli(stat.Ctime)}
	}
	if n.kind.waits() {
		return driver.Hold{Holder: d.Holder, Shared: n.kind.shared()}
	}
	return storekit.HoldOf(d.Holder, n.kind.shared(), time.UnixMilli(stat.Ctime))
}
