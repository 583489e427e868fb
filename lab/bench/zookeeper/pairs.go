//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/lab/bench/measure"
	"github.com/padlock-go/padlock/stores/zkstore"
)

const (
	peer    = "go-zookeeper Lock"
	ours    = "zkstore"
	noFence = "zkstore, fences=no"
)

// sessionTimeout is the session timeout of all contestants.
const sessionTimeout = 20 * time.Second

// pairs measures how long n goroutines take to lock and unlock. Each goroutine has its own name.
func (b *bench) pairs(n int) *measure.Experiment {
	row := func(name string, open func() (contestant, error)) measure.Row {
		return measure.Row{Name: name, Run: func() (measure.Figures, error) { return b.pair(n, open) }}
	}
	return &measure.Experiment{
		Name:    fmt.Sprintf("pair, ZooKeeper, %d goroutines", n),
		Columns: []measure.Column{{Name: "us", Format: "%.0f"}, {Name: "p50 us", Format: "%.0f"}},
		Rows:    []measure.Row{row(peer, b.peer), row(noFence, b.store(zkstore.NoFences())), row(ours, b.store())},
		Base:    peer, Ratio: "us",
		Targets: []measure.Target{
			{Row: noFence, Column: "us", Base: peer, AtMost: 1.05},
			{Row: ours, Column: "us", Base: peer, AtMost: 1.25},
		},
	}
}

// A contestant locks and unlocks names.
type contestant struct {
	pair  func(name string) error
	close func()
}

func (b *bench) pair(n int, open func() (contestant, error)) (measure.Figures, error) {
	c, err := open()
	if err != nil {
		return nil, err
	}
	defer c.close()
	var wg sync.WaitGroup
	var mu sync.Mutex
	var all []float64
	var failed error
	for i := range n {
		wg.Go(func() {
			took, err := b.timePairs(c, fmt.Sprint("pair", i))
			mu.Lock()
			defer mu.Unlock()
			all, failed = append(all, took...), errors.Join(failed, err)
		})
	}
	wg.Wait()
	if failed != nil {
		return nil, failed
	}
	sum := 0.0
	for _, t := range all {
		sum += t
	}
	return measure.Figures{"us": sum / float64(len(all)), "p50 us": measure.Median(all)}, nil
}

// timePairs locks and unlocks a name for the length of a trial. It returns how long each pair of a
// lock and an unlock took.
func (b *bench) timePairs(c contestant, name string) (took []float64, err error) {
	for range 20 {
		if err := c.pair(name); err != nil {
			return nil, err
		}
	}
	for end := time.Now().Add(b.plan.trial); time.Now().Before(end); {
		began := time.Now()
		if err := c.pair(name); err != nil {
			return nil, err
		}
		took = append(took, float64(time.Since(began).Nanoseconds())/1000)
	}
	return slices.Clip(took), nil
}

func (b *bench) connect() (*zk.Conn, error) {
	conn, events, err := zk.Connect([]string{b.addr}, sessionTimeout, zk.WithLogInfo(false))
	if err != nil {
		return nil, err
	}
	for e := range events {
		if e.State == zk.StateHasSession {
			break
		}
	}
	return conn, nil
}

// peer opens the contestant that uses the Lock type of the library go-zookeeper.
func (b *bench) peer() (contestant, error) {
	conn, err := b.connect()
	if err != nil {
		return contestant{}, err
	}
	return contestant{close: conn.Close, pair: func(name string) error {
		l := zk.NewLock(conn, "/peer/"+name, zk.WorldACL(zk.PermAll))
		if err := l.Lock(); err != nil {
			return err
		}
		return l.Unlock()
	}}, nil
}

func (b *bench) open(opts ...zkstore.Option) (*zkstore.Store, error) {
	return zkstore.Open(context.Background(), zkstore.Config{Servers: []string{b.addr}}, append(opts, zkstore.SessionTimeout(sessionTimeout))...)
}

// store returns a function that opens padlock's store.
func (b *bench) store(opts ...zkstore.Option) func() (contestant, error) {
	return func() (contestant, error) {
		s, err := b.open(opts...)
		if err != nil {
			return contestant{}, err
		}
		return contestant{close: func() { s.Close() }, pair: func(name string) error {
			r := driver.Request{Name: name, Token: name, TTL: time.Minute, Holder: driver.Holder{Host: "host.example", PID: 4711}}
			if _, err := s.Acquire(context.Background(), r); err != nil {
				return err
			}
			out, err := s.Release(context.Background(), r.Name, r.Token, 0)
			if err == nil && out != driver.Released {
				err = fmt.Errorf("release found %v", out)
			}
			return err
		}}, nil
	}
}
