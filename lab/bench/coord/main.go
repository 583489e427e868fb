//go:build linux

// Command coord measures padlock's locks in etcd and ZooKeeper. For comparison, it also measures
// the locks of their own clients, and the bare requests or watches that any such lock needs. It
// starts the servers itself. Package bench describes the method; `make bench-coord` runs the
// command.
package main

import (
	"sync"
	"testing"
	"time"

	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/lab/bench/measure"
)

var bench = measure.Bench[plan]{
	Name: "coord", Rounds: 7, Plan: plan{time.Second, 64},
	Start: func(r *measure.Run, p *plan) ([]*measure.Experiment, error) {
		started := func(start func(testing.TB) *server.Server) func() (string, error) {
			return sync.OnceValues(func() (addr string, err error) {
				return addr, r.Try(func(t testing.TB) { addr = start(t).Addr() })
			})
		}
		e := etcd{started(func(t testing.TB) *server.Server { return server.Etcd(t, server.EtcdOptions{}) })}
		z := zooKeeper{started(func(t testing.TB) *server.Server {
			return server.ZooKeeper(t, server.ZooKeeperOptions{Tick: time.Second})
		})}
		return append(e.experiments(p), z.experiments(p)...), nil
	},
}

func main() { bench.Main() }
