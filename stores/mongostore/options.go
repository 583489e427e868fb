package mongostore

import (
	"context"
	"crypto/tls"
	"net"
	"strings"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/storekit"
	"github.com/padlock-go/padlock/storekit/storeurl"
)

// Config says where MongoDB is. URI, Database and Collection are required. Open returns
// driver.ErrInvalid for a wrong field.
type Config struct {
	// URI is MongoDB's connection string, mongodb://HOST:PORT,HOST:PORT/?replicaSet=NAME. It has no
	// password, which would be printed with the Config, and no parameters of padlock's own. Its
	// write concern, read concern and read preference are ignored: the store writes with majority
	// and journal, and reads from the primary.
	URI string
	// Database and Collection say where the locks are. The store makes the collection if it is
	// missing. The collection should hold no other data, except the locks of PHP's Symfony.
	Database, Collection string
	// Credentials returns the user and the password; Login makes such a function from a fixed
	// password. It is a function so that nothing that prints a Config shows the password. Open calls
	// it once, since MongoDB's client keeps the login. The error that Credentials returns must not
	// contain a secret.
	Credentials func(ctx context.Context) (user, password string, err error)
	// TLS, if not nil, is used for every connection.
	TLS *tls.Config
	// Dial, if not nil, makes the connections, instead of a net.Dialer.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
}

func (c *Config) check() error {
	switch {
	case c.URI == "":
		return storekit.Invalidf("the URI is empty")
	case hasPassword(c.URI):
		return storekit.Invalidf("the URI has a password; use Credentials, which nothing can print")
	case c.Database == "" || strings.ContainsAny(c.Database, "/\\. \"$\x00"):
		return storekit.Invalidf("the database: name one, as in %s", example)
	case c.Collection == "" || strings.ContainsAny(c.Collection, "$\x00") || strings.HasPrefix(c.Collection, "system."):
		return storekit.Invalidf("the collection: it cannot have this name")
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
	symfony bool
	lazy    bool
}

// SymfonyLayout makes the store send the same requests as the MongoDbStore of PHP's Symfony. Each
// lock is a document, and each client judges the end of the lock by its own clock. So the clocks of
// all clients must agree, and there are no fences, no shared locks and no cool-downs. Without it,
// the layout is padlock's own.
func SymfonyLayout() Option { return func(c *config) { c.symfony = true } }

// Lazy opens the store without a request to the server, which may be down. Without it, Open
// connects and checks the server.
func Lazy() Option { return func(c *config) { c.lazy = true } }

const (
	noteExperimental = "Experimental: the store's tests have not yet run against a MongoDB server."
	noteDurable      = "Holds and fences survive a restart and a fail-over if the servers have journals; the store waits until a majority has written."
)

func (c *config) guarantees() driver.Guarantees {
	if c.symfony {
		return driver.Guarantees{
			Store:            "mongodb-symfony",
			SurvivesRestart:  driver.PromisePartly,
			SurvivesFailover: driver.PromisePartly,
			SafeEviction:     driver.PromiseYes,
			Lease:            true,
			Lacks:            driver.AbilityConverter | driver.AbilityFenceRaiser | driver.AbilityList | driver.AbilityStoreID,
			Notes: []string{
				noteExperimental,
				"The locks are shared with PHP's Symfony, whose documents have no room for fences, shared locks and holders.",
				"Every client judges leases by its own clock: keep all clocks together.",
				noteDurable + " PHP waits as its connection says.",
				"FerretDB 1 does not take over an ended lease in one step: use it with one contender for each name.",
			},
		}
	}
	return driver.Guarantees{
		Store:            "mongodb",
		SurvivesRestart:  driver.PromisePartly,
		SurvivesFailover: driver.PromisePartly,
		SafeEviction:     driver.PromiseYes,
		Fence:            driver.FenceDurable,
		SharedFence:      driver.PromiseYes,
		Lease:            true,
		Shared:           true,
		Promotion:        driver.PromotionAtomic,
		CoolDown:         true,
		Notes: []string{
			noteExperimental,
			noteDurable,
			"A name has at most 1000 readers at the same time.",
			"The primary's clock judges leases. Servers whose clocks differ lengthen or shorten leases at a fail-over by the difference.",
			"If a PHP client deletes a document, the next fence comes from the server's clock. It may be lower than one that FenceAbove or a quorum had set ahead of the clock.",
		},
	}
}
