package drivertest

import (
	"strings"

	"github.com/padlock-go/padlock/driver"
)

var identifyCases = []testCase{
	{
		name:   "identify/same",
		clause: "StoreID returns the same id to every process, now and later: at most MaxStoreID bytes of letters, digits, '-' and '_'.",
		needs:  []need{identifies},
		f: func(c *check) {
			id := c.storeID(c.a)
			if len(id) == 0 || len(id) > driver.MaxStoreID || strings.ContainsFunc(id, notInID) {
				c.errorf("the id is %q", id)
			}
			for _, cl := range []*client{c.a, c.b, c.openAnother()} {
				if got := c.storeID(cl); got != id {
					c.failf("one process has id %q, another has %q", id, got)
				}
			}
		},
	},
	{
		name:   "identify/restart",
		clause: "A store that keeps its holds when the server restarts keeps its id too.",
		needs:  []need{identifies, restart, survives},
		alone:  true,
		f: func(c *check) {
			id := c.storeID(c.a)
			c.restart(true)
			if got := c.storeID(c.a); got != id {
				c.failf("the id was %q and is %q after a restart", id, got)
			}
			c.recovers("after a restart")
		},
	},
	{
		name:   "identify/place",
		clause: "SamePlace is true for another handle on the same place, and false for a store of another kind.",
		needs:  []need{places},
		f: func(c *check) {
			if !driver.SamePlace(c.a.store, c.b.store) {
				c.errorf("SamePlace is false for two stores that were opened alike")
			}
			if driver.SamePlace(c.a.store, stranger{}) {
				c.errorf("SamePlace is true for a store of another kind")
			}
		},
	},
}

func notInID(r rune) bool {
	return !(r == '-' || r == '_' || '0' <= r && r <= '9' || 'A' <= r && r <= 'Z' || 'a' <= r && r <= 'z')
}

// storeID returns the store's id. It asks again until the store can be reached.
func (c *check) storeID(cl *client) (id string) {
	err := c.answered(func() (err error) { id, err = cl.StoreID(c.ctx); return err })
	if err != nil {
		c.failf("StoreID: %v", err)
	}
	return id
}

// stranger is a store of a kind that exists only in this file. So the store that is being checked
// cannot keep its locks in the same place as a stranger.
type stranger struct{ driver.Store }
