package etcdstore

import (
	"cmp"
	"context"
	"crypto/tls"
	"net"
	"strings"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/storekit"
	"github.com/padlock-go/padlock/storekit/storeurl"
)

// Config says where etcd is and how to log in. Endpoints is required; every other field may be left
// out. Open returns driver.ErrInvalid for a wrong field.
type Config struct {
	// Endpoints are the addresses of the members, each HOST:PORT. One address is enough. With the
	// addresses of all members, the store works as long as one member is connected to the leader.
	Endpoints []string
	// Credentials returns the user and the password for a cluster that has authentication enabled;
	// Login makes such a function from a fixed password. It is a function so that nothing that
	// prints a Config shows the password. The store calls Credentials when it connects to the
	// cluster, and again if the cluster does not accept the password any more. The error that
	// Credentials returns must not contain a secret.
	Credentials func(ctx context.Context) (user, password string, err error)
	// TLS, if not nil, is used for every connection.
	TLS *tls.Config
	// Dial, if not nil, makes the connections, instead of a net.Dialer. network is "tcp". With TLS,
	// the store encrypts the connection that Dial returns.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// Login returns Credentials for a password that does not change. If both are empty, Login returns
// nil, and the store does not log in.
func Login(user, password string) func(ctx context.Context) (user, password string, err error) {
	return storeurl.Login(user, password)
}

// Option changes what Open does.
type Option func(*config)

type config struct {
	prefix string
	lazy   bool
	clock  driver.Clock
}

func defaults() config {
	return config{prefix: "padlock/", clock: driver.SystemClock()}
}

// Prefix sets the text with which all keys begin. The default is "padlock/". The store needs only a
// role of etcd that may read and write the keys with this prefix. Stores with different prefixes do
// not share locks. The prefix of one store should not begin with the prefix of another. A prefix
// has from 1 to 256 bytes, and no zero byte; otherwise Open returns driver.ErrInvalid.
func Prefix(text string) Option { return func(c *config) { c.prefix = text } }

// Lazy opens the store without sending a request. So Open succeeds even if the server is down.
// Without Lazy, Open checks that the server answers.
func Lazy() Option { return func(c *config) { c.lazy = true } }

// WithClock sets the clock with which the store measures the leases of its own holds. The default
// is driver.SystemClock, which nil stands for too. WithClock is meant for tests.
func WithClock(clock driver.Clock) Option {
	return func(c *config) { c.clock = cmp.Or(clock, driver.SystemClock()) }
}

func (c *config) check() error {
	switch {
	case c.prefix == "":
		return storekit.Invalidf("prefix: it is empty; the keys of padlock need a beginning of their own")
	case len(c.prefix) > 256:
		return storekit.Invalidf("prefix: it has %d bytes, at most 256 are allowed", len(c.prefix))
	case strings.ContainsRune(c.prefix, 0):
		return storekit.Invalidf("prefix: it contains a zero byte")
	}
	return nil
}

// guarantees are the promises of every Store of this package. MinTTL is the shortest lease that a
// server with default settings grants.
var guarantees = driver.Guarantees{
	Store:            "etcd",
	SurvivesRestart:  driver.PromiseYes,
	SurvivesFailover: driver.PromisePartly,
	SafeClockJump:    driver.PromiseYes,
	SafeEviction:     driver.PromiseYes,
	Fence:            driver.FenceDurable,
	SharedFence:      driver.PromiseYes,
	MinTTL:           2 * time.Second,
	DeadWaiter:       deadWaiter,
	Lease:            true,
	Shared:           true,
	Promotion:        driver.PromotionAtomic,
	FIFO:             true,
	CoolDown:         true,
	Notes: []string{
		"A new leader gives every lease its whole time again, so a dead holder may keep the name longer.",
		"A leader that stood still for longer than a lease may end leases that were renewed at the next leader when it goes on (etcd issue 15247), so a second holder is possible, with a greater fence.",
		"A restored snapshot brings back the holds that it contains; fences still grow.",
		"Fences follow the clocks of the clients; a fence that was not used for 7 days is forgotten.",
		"While the server is out of space (alarm NOSPACE), nothing new is granted, a promotion or a demotion fails, and a release ends the lock without its cool-down.",
		"Before etcd 3.6.5 a renewal may succeed though the lease has just ended.",
	},
}
