package httpstore

import (
	"crypto/tls"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/padlock-go/padlock/storekit"
	"github.com/padlock-go/padlock/storekit/overhttp"
)

// Config says where the servers are and who the client is. Only Servers is required. Open returns
// driver.ErrInvalid for a wrong field.
type Config struct {
	// Servers are the URLs of the servers, such as https://locks.example.com/. They offer one
	// store. If one does not answer, the next one is asked. A URL with http is for this machine
	// only, unless Plaintext is given.
	Servers []string
	// Token returns the token of the server's token file that every request has in its header
	// Authorization. It is called often and should remember its result. Nil means none.
	Token func() (string, error)
	// TLS has the settings of encrypted connections. Nil means those of net/http.
	TLS *tls.Config
	// Transport sends the requests in place of the usual one, which has the settings of TLS. It
	// must not repeat a request that may have arrived.
	Transport http.RoundTripper
}

// An Option changes how a store is opened.
type Option func(*config)

type config struct {
	Config
	lazy, plaintext bool
	examine         bool // Open asks the servers, and ignores errors
}

// Lazy opens the store without a request to a server, which may be down. The store then promises
// only what every server can keep: for example, it has no fences and no shared locks. By default
// Open asks all servers what their store promises.
func Lazy() Option { return func(c *config) { c.lazy = true } }

// Plaintext allows URLs with http for servers on other machines: everybody on the way can read the
// tokens, and take or release every lock. By default such a URL is driver.ErrInvalid.
func Plaintext() Option { return func(c *config) { c.plaintext = true } }

// examined is for a store that is only looked at.
func examined(c *config) { c.examine = true }

// bases checks the URLs of the servers. Each of its results ends with a slash.
func (c *config) bases() (all []*url.URL, err error) {
	for _, text := range c.Servers {
		u, err := url.Parse(text)
		switch {
		case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.RawQuery+u.Fragment != "":
			return nil, storekit.Invalidf("the server: it is a URL such as https://locks.example.com/")
		case u.User != nil:
			return nil, storekit.Invalidf("a password or a token does not stand in the URL: use token-file, or Config.Token")
		case u.Scheme == "http" && !c.plaintext && !overhttp.Loopback(u.Hostname()):
			return nil, storekit.Invalidf("the server: a connection to another machine needs https; plaintext=yes, or the option Plaintext, allows http")
		}
		all = append(all, u.JoinPath("/"))
	}
	if len(all) == 0 {
		return nil, storekit.Invalidf("no server is named")
	}
	return all, nil
}

// dialTime is how long a server may need to accept a connection. Within storekit.Patience, three
// servers can be tried.
const dialTime = 1500 * time.Millisecond

// transport returns what sends the requests.
func (c *config) transport() http.RoundTripper {
	if c.Transport != nil {
		return c.Transport
	}
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.DialContext = (&net.Dialer{Timeout: dialTime}).DialContext
	t.TLSHandshakeTimeout = dialTime
	t.MaxIdleConnsPerHost = 64
	// With HTTP/2 all requests share one connection. If it is dead, a request must notice before
	// its time is up.
	t.HTTP2 = &http.HTTP2Config{SendPingTimeout: time.Second, PingTimeout: time.Second}
	if c.TLS != nil {
		t.TLSClientConfig = c.TLS.Clone()
	}
	return t
}
