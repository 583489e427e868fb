package quorum_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/drivertest"
	"github.com/padlock-go/padlock/stores/quorum"
)

var shapes = []struct {
	rule    quorum.Rule
	members int
}{{quorum.Majority, 3}, {quorum.Majority, 5}, {quorum.Majority, 1}, {quorum.All, 2}}

// harness opens quorums over servers whose replies it can lose.
func harness(t testing.TB, rule quorum.Rule, servers cluster, opts ...quorum.Option) drivertest.Harness {
	clients := make(chan map[driver.Store]*client, 1)
	clients <- map[driver.Store]*client{}
	return drivertest.Harness{
		Logf: t.Logf,
		Open: func(context.Context) (driver.Store, error) {
			cl := servers.client(t, rule, opts...)
			all := <-clients
			all[cl.Store] = cl
			clients <- all
			return cl.Store, nil
		},
		LoseReply: func(s driver.Store) error {
			all := <-clients
			defer func() { clients <- all }()
			for _, l := range all[s].links {
				lose := true
				l.set(func(string) fault {
					if lose {
						lose = false
						return lostReply
					}
					return fault{}
				})
			}
			return nil
		},
		Full: func(on bool) error { // the members refuse new data
			all := <-clients
			defer func() { clients <- all }()
			for _, cl := range all {
				for _, l := range cl.links {
					l.set(func(op string) fault { return fault{down: on && op == "acquire"} })
				}
			}
			return nil
		},
		Pause: func() (func() error, error) {
			all := <-clients
			defer func() { clients <- all }()
			for _, cl := range all {
				for _, l := range cl.links {
					l.always(silent)
				}
			}
			return func() error {
				all := <-clients
				defer func() { clients <- all }()
				for _, cl := range all {
					cl.heal()
				}
				return nil
			}, nil
		},
	}
}

// In a bubble the suite takes no time, and fails on no slow machine.
func TestContract(t *testing.T) {
	for _, shape := range shapes {
		t.Run(fmt.Sprintf("%v of %d", shape.rule, shape.members), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				for _, f := range drivertest.Check(harness(t, shape.rule, newCluster(shape.members))) {
					t.Error(f)
				}
			})
		})
	}
	t.Run("without fences", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			for _, f := range drivertest.Check(harness(t, quorum.Majority, newCluster(3), quorum.NoFences())) {
				t.Error(f)
			}
		})
	})
}
