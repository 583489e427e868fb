//go:build linux

package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/lab/bench/measure"
	"github.com/padlock-go/padlock/stores/zkstore"
)

const hop = "zk-watch"

// drains measures how fast a queue empties. Many waiters, each with its own session, wait for a
// held name. The holder releases the name, and each waiter then takes and releases it once. For
// comparison, the row zk-watch measures hand-overs without locks: each process watches a node, and
// when that node is gone, it deletes the node of the next process.
func (b *bench) drains() *measure.Experiment {
	e := &measure.Experiment{
		Name:    fmt.Sprintf("drain, ZooKeeper, %d waiters", b.plan.waiters),
		Columns: []measure.Column{{Name: "total_ms", Format: "%.1f"}, {Name: "packets", Format: "%.2f"}},
		Base:    hop, Ratio: "total_ms",
	}
	for name, open := range map[string]func() ([]member, error){
		hop: b.watchers, peer: b.peers, noFence: b.stores(zkstore.NoFences()), ours: b.stores(),
	} {
		e.Rows = append(e.Rows, measure.Row{Name: name, Run: func() (measure.Figures, error) { return b.drain(open) }})
	}
	for _, name := range []string{ours, noFence} {
		e.Targets = append(e.Targets, measure.Target{Row: name, Column: "total_ms", Base: hop, AtMost: 1.6})
	}
	return e
}

// A member of a line waits for its turn and then passes it on.
type member struct {
	queue func() error // takes the member's place in the line
	turn  func() error // waits for the turn
	pass  func() error
	close func()
}

// drain opens the members of a queue. The first member passes on its turn, and drain measures the
// time until the last member has had its turn.
func (b *bench) drain(open func() ([]member, error)) (measure.Figures, error) {
	b.runs++
	members, err := open()
	defer func() {
		for _, m := range members {
			m.close()
		}
	}()
	if err != nil {
		return nil, err
	}
	errs := make(chan error, len(members))
	var wg sync.WaitGroup
	for i, m := range members {
		if err := m.queue(); err != nil {
			return nil, err
		}
		if i == 0 {
			continue
		}
		wg.Go(func() { errs <- errors.Join(m.turn(), m.pass()) })
		<-time.After(2 * time.Millisecond) // so that they come in this order
	}
	<-time.After(120 * time.Millisecond)
	before, began := b.packets(), time.Now()
	if err := members[0].pass(); err != nil {
		return nil, err
	}
	wg.Wait()
	took := time.Since(began)
	for range len(members) - 1 {
		err = errors.Join(err, <-errs)
	}
	n := float64(len(members) - 1)
	return measure.Figures{"total_ms": float64(took.Microseconds()) / 1000, "packets": float64(b.packets()-before) / n}, err
}

var received = regexp.MustCompile(`Received: (\d+)`)

// packets returns how many requests the server has received.
func (b *bench) packets() int {
	said, _ := server.ZooKeeperSays(context.Background(), b.addr, "srvr")
	n := 0
	if m := received.FindStringSubmatch(said); m != nil {
		n, _ = strconv.Atoi(m[1])
	}
	return n
}

// openLine opens all members of a queue: the holder and the waiters.
func (b *bench) openLine(open func(i int) (member, error)) (all []member, err error) {
	for i := range b.plan.waiters + 1 {
		m, err := open(i)
		if err != nil {
			return all, err
		}
		all = append(all, m)
	}
	return all, nil
}

func (b *bench) watchers() ([]member, error) {
	run := b.runs
	return b.openLine(func(i int) (member, error) {
		conn, err := b.connect()
		if err != nil {
			return member{}, err
		}
		node := func(i int) string { return fmt.Sprintf("/hop-%d-%d", run, i) }
		var gone <-chan zk.Event
		return member{
			queue: func() error {
				_, err := conn.Create(node(i), nil, zk.FlagEphemeral, zk.WorldACL(zk.PermAll))
				if err == nil && i > 0 {
					_, _, gone, err = conn.GetW(node(i - 1))
				}
				return err
			},
			turn:  func() error { return (<-gone).Err },
			pass:  func() error { return conn.Delete(node(i), -1) },
			close: conn.Close,
		}, nil
	})
}

func (b *bench) peers() ([]member, error) {
	run := b.runs
	return b.openLine(func(i int) (member, error) {
		conn, err := b.connect()
		if err != nil {
			return member{}, err
		}
		l := zk.NewLock(conn, fmt.Sprint("/peer/drain", run), zk.WorldACL(zk.PermAll))
		m := member{queue: func() error { return nil }, turn: l.Lock, pass: l.Unlock, close: conn.Close}
		if i == 0 {
			m.queue = l.Lock
		}
		return m, nil
	})
}

func (b *bench) stores(opts ...zkstore.Option) func() ([]member, error) {
	return func() ([]member, error) {
		run, ctx := b.runs, context.Background()
		return b.openLine(func(i int) (member, error) {
			s, err := b.open(opts...)
			if err != nil {
				return member{}, err
			}
			r := driver.Request{Name: fmt.Sprint("drain", run), Token: rand.Text(), TTL: time.Minute}
			acquire := func() error { _, err := s.Acquire(ctx, r); return err }
			m := member{
				queue: func() error { return nil },
				turn: func() error {
					if g, err := s.Wait(ctx, r, true); err != nil || g.TTL == 0 {
						return fmt.Errorf("wait: %+v, %w", g, err)
					}
					return acquire()
				},
				pass:  func() error { _, err := s.Release(ctx, r.Name, r.Token, 0); return err },
				close: func() { s.Close() },
			}
			if i == 0 {
				m.queue = acquire
			}
			return m, nil
		})
	}
}
