package zkstore_test

import (
	"errors"
	"testing"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/stores/zkstore"
)

// The comments of the options say these ranges. Open checks them before it connects.
func TestRangesOfOptions(t *testing.T) {
	for _, c := range []struct {
		name  string
		opt   zkstore.Option
		valid bool
	}{
		{"SessionTimeout(199ms)", zkstore.SessionTimeout(199 * time.Millisecond), false},
		{"SessionTimeout(200ms)", zkstore.SessionTimeout(200 * time.Millisecond), true},
		{"SessionTimeout(10m)", zkstore.SessionTimeout(10 * time.Minute), true},
		{"SessionTimeout(11m)", zkstore.SessionTimeout(11 * time.Minute), false},
		{"half a millisecond", zkstore.SessionTimeout(time.Second + time.Microsecond), false},
		{"a root", zkstore.Root("/shop/locks"), true},
		{"the empty root", zkstore.Root(""), true},
		{"the root of the tree", zkstore.Root("/"), false},
		{"ZooKeeper's own nodes", zkstore.Root("/zookeeper/locks"), false},
		{"a relative root", zkstore.Root("shop"), false},
		{"a blank", zkstore.Root("/a b"), false},
		{"nil for a clock", zkstore.WithClock(nil), true},
	} {
		s, err := zkstore.Open(t.Context(), zkstore.Config{Servers: []string{"127.0.0.1:1"}}, zkstore.Lazy(), c.opt)
		if (err == nil) != c.valid || err != nil && !errors.Is(err, driver.ErrInvalid) {
			t.Errorf("%s: %v", c.name, err)
		}
		if err == nil {
			s.Close()
		}
	}
}
