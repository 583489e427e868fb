package zkstore

import (
	"context"
	"net"
	"path"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/storekit"
	"github.com/padlock-go/padlock/storekit/storeurl"
)

// Config says where ZooKeeper is and how to log in. Only Servers is required. Every other field may
// be left out. Open returns driver.ErrInvalid for a wrong field.
type Config struct {
	// Servers are the addresses of the ensemble's members, each HOST:PORT.
	Servers []string
	// Credentials returns the user and the password for ZooKeeper's digest scheme; Login makes such
	// a function from a fixed password. It is a function so that nothing that prints a Config shows
	// the password. The nodes that the store makes belong to this user, whose name has no colon, and
	// nobody else may read or change them (CREATOR_ALL). Without Credentials, everybody may change
	// the nodes. The password travels unencrypted unless Dial encrypts. The store calls Credentials
	// when a session begins, so a password can change while the program runs. ctx ends when the
	// session or the store ends. The error that Credentials returns must not contain the password.
	Credentials func(ctx context.Context) (user, password string, err error)
	// Dial, if not nil, makes the connections instead of a net.Dialer, for example to encrypt them.
	// Its ctx ends after at most a second. Dial must be safe for concurrent use.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
}

func checkUser(name string) error {
	if name == "" || strings.Contains(name, ":") {
		return storekit.Invalidf("a user's name is not empty and has no colon")
	}
	return nil
}

// Login returns Credentials for a password that does not change. If both are empty, Login returns
// nil, and the store does not log in.
func Login(user, password string) func(ctx context.Context) (user, password string, err error) {
	return storeurl.Login(user, password)
}

// Option changes what Open does.
type Option func(*config)

type config struct {
	servers     []string
	credentials func(ctx context.Context) (user, password string, err error)
	dial        func(ctx context.Context, network, addr string) (net.Conn, error)
	root        string
	timeout     time.Duration
	ownFor      time.Duration // how long a waiter waits for a release of its own process; see awaitOwn
	reserveFor  time.Duration // how long a lock stays reserved for the waiter that it was granted to
	noFences    bool
	symfony     bool
	lazy        bool
	lenient     bool
	clock       driver.Clock
}

// DefaultSessionTimeout is the session timeout that the store asks for, if SessionTimeout is not
// given. The servers allow 2 to 20 of their ticks; with their usual settings, that is 4 to 40 s.
const DefaultSessionTimeout = 10 * time.Second

// defaultRoot is the node below which the store keeps the locks, unless Root or SymfonyLayout says
// otherwise.
const defaultRoot = "/padlock"

func defaults() config {
	return config{timeout: DefaultSessionTimeout, ownFor: 2 * time.Millisecond, reserveFor: reservationTTL}
}

// Root sets the node below which the store keeps its locks. The default is /padlock, or / with
// SymfonyLayout. A root is a path such as /shop/locks, of letters, digits and the characters - _ .
// : @ + , = ~, and not below /zookeeper; otherwise Open returns driver.ErrInvalid. The store makes
// the node if it is missing. Programs with different roots do not see each other's locks.
func Root(node string) Option { return func(c *config) { c.root = node } }

// SessionTimeout sets how long the servers keep the locks of a process that died or fell silent.
// The default is DefaultSessionTimeout, 10 s. It is a whole number of milliseconds, from 200 ms to
// 10 min; otherwise Open returns driver.ErrInvalid. If the servers allow only shorter timeouts, the
// store uses the longest timeout that they allow. If they allow only longer ones, Open returns
// driver.ErrInvalid.
func SessionTimeout(d time.Duration) Option { return func(c *config) { c.timeout = d } }

// NoFences turns fences off. That saves requests for names that are rarely locked. But without
// fences, a holder that has lost its session can still write to the data that the lock protects.
// Without NoFences, every lock has a fence.
func NoFences() Option { return func(c *config) { c.noFences = true } }

// SymfonyLayout keeps locks as the ZookeeperStore of PHP's Symfony does: one ephemeral node for
// each name, by default in the root of the tree. This layout has no shared locks, no queue and no
// fences. Without it, the layout is padlock's own.
func SymfonyLayout() Option { return func(c *config) { c.symfony = true } }

// Lazy opens the store without waiting for a connection. So Open succeeds even if the servers are
// down. Without Lazy, Open waits for one.
func Lazy() Option { return func(c *config) { c.lazy = true } }

// WithClock sets the clock with which the store decides whether its session may have ended. The
// default is driver.SystemClock, which nil stands for too.
func WithClock(c driver.Clock) Option { return func(o *config) { o.clock = c } }

func (c *config) check() error {
	if c.root == "" && !c.symfony {
		c.root = defaultRoot
	} else if c.root == "" {
		c.root = "/"
	}
	switch {
	case len(c.servers) == 0:
		return storekit.Invalidf("no server is named")
	case c.timeout < 200*time.Millisecond || c.timeout > 10*time.Minute || c.timeout%time.Millisecond != 0:
		return storekit.Invalidf("the session timeout is %v; it is 200ms to 10m", c.timeout)
	case c.symfony && c.noFences:
		return storekit.Invalidf("fences: Symfony's layout has none; leave the option out")
	case !c.symfony && c.root == "/":
		return storekit.Invalidf("the locks cannot be in the root of the tree, where ZooKeeper has nodes of its own; name a node, as in /padlock")
	}
	for _, s := range c.servers {
		if _, _, err := net.SplitHostPort(s); err != nil {
			return storekit.Invalidf("the server %q is not HOST:PORT", s)
		}
	}
	return checkRoot(c.root)
}

// checkRoot rejects paths that ZooKeeper would reject.
func checkRoot(root string) error {
	for part := range strings.SplitSeq(strings.TrimPrefix(root, "/"), "/") {
		if root != "/" && nodeNames.Escape(part) != part || part == "" && root != "/" {
			return storekit.Invalidf("the root %q: it is a path such as /shop/locks, of letters, digits and the characters - _ . : @ + , = ~", root)
		}
	}
	if path.Clean(root) != root || root[0] != '/' || root == "/zookeeper" || strings.HasPrefix(root, "/zookeeper/") {
		return storekit.Invalidf("the root %q: it is a path such as /shop/locks, and not below /zookeeper", root)
	}
	return nil
}

// dir returns the path of a lock's node.
func (c *config) dir(name string) string { return join(c.root, nodeNames.Escape(name)) }

// acl returns the access rights of the nodes that the store makes.
func (c *config) acl() []zk.ACL {
	if c.credentials != nil {
		return zk.AuthACL(zk.PermAll)
	}
	return zk.WorldACL(zk.PermAll)
}

func (c *config) guarantees() driver.Guarantees {
	g := driver.Guarantees{
		Store:            "zookeeper",
		SurvivesRestart:  driver.PromisePartly,
		SurvivesFailover: driver.PromisePartly,
		SafeClockJump:    driver.PromiseYes,
		SafeEviction:     driver.PromiseYes,
		Bound:            driver.BoundToConnection,
		Fence:            driver.FenceDurable,
		SharedFence:      driver.PromiseYes,
		LossDelay:        c.timeout,
		DeadWaiter:       2 * c.timeout, // the servers end sessions up to a tick late
		Shared:           true,
		Promotion:        driver.PromotionAtomic,
		FIFO:             true,
		Lacks:            driver.AbilityStoreID,
		Notes: []string{
			"Holds survive a restart or a change of the leader that takes less than about half of the session timeout.",
			"All holds of a store end with its session.",
			"With forceSync=no, a crash of the machines can lose holds and fences.",
			"A reader that died while it waited for its promotion keeps new readers out until its session ends.",
		},
	}
	if c.noFences || c.symfony {
		g.Fence, g.SharedFence = driver.FenceNone, driver.PromiseNo
		g.Lacks |= driver.AbilityFenceRaiser
	}
	if c.symfony {
		g.Store, g.Shared, g.Promotion, g.FIFO = "zookeeper-symfony", false, driver.PromotionNone, false
		g.Lacks |= driver.AbilityConverter | driver.AbilityList
		g.Notes = g.Notes[:3]
	}
	return g
}
