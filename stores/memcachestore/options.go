package memcachestore

import (
	"context"
	"crypto/tls"
	"net"
	"strings"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/storekit"
	"github.com/padlock-go/padlock/storekit/storeurl"
)

// Config says where memcached is and how to log in. One of Addr and Socket is required; every other
// field may be left out. Open returns driver.ErrInvalid for a wrong field. A store has one server.
// If several servers shared the keys, a lock would move to another server when one of them fails,
// and could then have two holders.
type Config struct {
	// Addr is the address of the server, HOST:PORT.
	Addr string
	// Socket is the path of the server's unix socket, instead of Addr.
	Socket string
	// Credentials returns the user and the password for a server that was started with an authfile
	// (memcached -Y); Login makes such a function from a fixed password. It is a function so that
	// nothing that prints a Config shows the password. It is called for every new connection, and
	// must be safe for concurrent use. Callers of the store see its error, so the error must not
	// contain a secret. The user has no blank, and neither has a newline. memcached's other login,
	// SASL (memcached -S), works with the binary protocol only, which padlock does not use.
	Credentials func(ctx context.Context) (user, password string, err error)
	// TLS, if not nil, is used for every connection. If its ServerName is empty, the host of Addr
	// is used.
	TLS *tls.Config
	// Dial, if not nil, makes the connections, instead of a net.Dialer. network is "tcp" or "unix".
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
}

func (c *Config) check() error {
	if (c.Addr == "") == (c.Socket == "") {
		return storekit.Invalidf("Config has either Addr or Socket")
	}
	if strings.Contains(c.Addr, ",") {
		return storekit.Invalidf(oneServer)
	}
	if _, _, err := net.SplitHostPort(c.Addr); c.Addr != "" && err != nil {
		return storekit.Invalidf("Addr is HOST:PORT")
	}
	return nil
}

func checkLogin(user, password string) error {
	if strings.ContainsAny(user+password, "\r\n") || strings.Contains(user, " ") {
		return storekit.Invalidf("the user and the password have no newline, and the user no blank")
	}
	return nil
}

// Login returns Credentials for a password that does not change. If both are empty, Login returns
// nil, and the store does not log in.
func Login(user, password string) func(ctx context.Context) (user, password string, err error) {
	return storeurl.Login(user, password)
}

// network returns the arguments of a dialer.
func (c *Config) network() (network, addr string) {
	if c.Socket != "" {
		return "unix", c.Socket
	}
	return "tcp", c.Addr
}

const oneServer = "a store of memcached has one server: a client of several servers moves a name to another one when a server fails, and then the name has two holders; for several servers use a quorum with one store for each (without fences)"

// Option changes what Open does.
type Option func(*config)

type config struct {
	symfony bool
	prefix  string
	lazy    bool
}

// SymfonyLayout uses the same keys and values as the MemcachedStore of PHP's Symfony: the key is
// the name itself, and the value is the token. So the holders of a name are not known, there are no
// cool-downs, and names are shorter: see Guarantees.MaxName. Without it, the layout is padlock's
// own.
func SymfonyLayout() Option { return func(c *config) { c.symfony = true } }

// Prefix sets a text with which every key begins. The default is no text. Stores with different
// prefixes do not see each other's locks. To share locks with PHP, use the same prefix as PHP's
// client (OPT_PREFIX_KEY). A prefix has at most 100 printable ASCII characters and no blank;
// otherwise Open returns driver.ErrInvalid.
func Prefix(text string) Option { return func(c *config) { c.prefix = text } }

// Lazy opens the store without a request to the server, which may be down. Without it, Open
// connects and checks the server.
func Lazy() Option { return func(c *config) { c.lazy = true } }

func (c *config) check() error {
	bad := func(r rune) bool { return r <= ' ' || r >= 0x7f }
	if len(c.prefix) > 100 || strings.ContainsFunc(c.prefix, bad) {
		return storekit.Invalidf("Prefix has at most 100 printable ASCII characters and no blank")
	}
	return nil
}

// minTTL is the shortest lease. memcached counts in whole seconds, and the store rounds each lease
// up; see lifeFor. A lease of 0.1 s could last for 2 s.
const minTTL = 2 * time.Second

// maxEncoded is the length of the longest key with blanks or control characters, in bytes. Such a
// key is sent in base64. A key without them may have 250 bytes.
const maxEncoded = 186

func (c *config) guarantees() driver.Guarantees {
	g := driver.Guarantees{
		Store:         "memcached",
		SafeClockJump: driver.PromiseYes,
		MinTTL:        minTTL,
		Lease:         true,
		CoolDown:      !c.symfony,
		Lacks:         driver.AbilityList | driver.AbilityBreak | driver.AbilityStoreID,
		Notes: []string{
			"Best effort: memcached is a cache. A restart or an eviction frees held names, and no fence stops the holder that still works.",
			"memcached counts in whole seconds: a name whose holder died stays taken for up to three seconds longer than its lease.",
			"A server that stood still (SIGSTOP, a suspended machine) may end leases early, by as much time as it stood still.",
			"Extending a lease writes the value again: a full server that may not evict (memcached -M) can lose the hold.",
			"There is one server; its data is not replicated.",
		},
	}
	if c.symfony {
		g.MaxName = maxEncoded - len(c.prefix)
		g.Notes = append(g.Notes,
			"Holders are not known, because the value has no room for them.",
			"PHP deletes a name up to 2 seconds after it checked that the name is its own: a PHP process that stands still in between may free the name of another holder.")
	}
	return g
}
