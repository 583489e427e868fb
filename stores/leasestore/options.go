package leasestore

import (
	"context"
	"net"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"strings"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/storekit"
	"github.com/padlock-go/padlock/storekit/overhttp"
	"github.com/padlock-go/padlock/storekit/register"
	"github.com/padlock-go/padlock/storekit/storeurl"
)

// Config has the place of the locks and the credentials. In a pod, and with a kubeconfig, nothing
// is required. Open returns driver.ErrInvalid for a wrong field.
type Config struct {
	// Namespace is that of the Lease objects; "" means the pod's own, or that of the kubeconfig.
	Namespace string
	// Prefix tells the locks of several programs in a namespace apart. As in a URL, it gets a
	// slash at its end if it has none.
	Prefix string
	// Endpoint is the URL of the API server; "" means the one of the pod's cluster or of the
	// kubeconfig. `kubectl proxy` offers http://127.0.0.1:8001.
	Endpoint string
	// Kubeconfig is the file to read; "" means those of kubectl, which are read outside of a
	// pod: the list in KUBECONFIG, or ~/.kube/config. Context is the context to use; "" means
	// the current one.
	Kubeconfig, Context string
	// TokenFile and CAFile are read as the pod's service account has them. With an Endpoint,
	// none is read unless it is given. The token is read for each request, since it changes.
	TokenFile, CAFile string
	// ServerClock judges leases by the clocks of the API servers instead of by observation.
	// These may differ by two seconds, or by register.Skew if that is more. All programs that
	// share locks must have the same values.
	ServerClock bool
	// LeaderElection shares the locks with the leader election of client-go, whose Lease objects
	// have the names of the locks. There is no Prefix then, and no ServerClock.
	LeaderElection bool
	// Transport sends the requests; nil means one that trusts CAFile.
	Transport http.RoundTripper
}

// serverSkew is how far the clocks of two API servers may differ, unless register.Skew says more.
const serverSkew = 2 * time.Second

// account is where a pod has the token of its service account.
const account = "/var/run/secrets/kubernetes.io/serviceaccount/"

var kind = register.Kind{
	Options: register.Options{
		Name: "kubernetes", Clock: register.Clock{Observed: true}, MinTTL: 10 * time.Second, // each renewal is a write to etcd
		SurvivesRestart: driver.PromiseYes, SurvivesFailover: driver.PromiseYes,
	},
	Help:    "Lease objects of a Kubernetes cluster",
	Example: "kubernetes:",
	Login:   "a pod has the token of its service account; elsewhere, write token-file=PATH",
	Params:  []string{"kubeconfig", "context", "token-file", "ca-file", "clock", "layout"},
	Type:    &leases{},
	Connect: func(t *register.Target) (register.Register, error) {
		c := Config{
			Namespace: t.URL.Host, Prefix: t.Path, TokenFile: t.Params["token-file"], CAFile: t.Params["ca-file"],
			Kubeconfig: t.Params["kubeconfig"], Context: t.Params["context"],
		}
		if t.Endpoint != nil {
			c.Endpoint = t.Endpoint.String()
		}
		switch t.Params["clock"] {
		case "server":
			c.ServerClock = true
		case "", "observed":
		default:
			return nil, storekit.Invalidf("clock: it is observed or server")
		}
		switch layout, given := t.Params["layout"]; {
		case layout == "leaderelection":
			c.LeaderElection = true
		case given:
			return nil, storekit.Invalidf("layout: it is leaderelection, or left out")
		}
		return connect(c, &t.Options)
	},
}

// Scheme describes the URLs of Kubernetes for package open. [FromURL] lists these URLs.
func Scheme() storeurl.Scheme { return kind.Scheme() }

// FromURL opens the store that a URL names:
//
//	kubernetes:
//	kubernetes://NAMESPACE[/PREFIX]
//
// The URL may have these parameters:
//
//	endpoint=URL           Config.Endpoint
//	kubeconfig=PATH        Config.Kubeconfig
//	context=NAME           Config.Context
//	token-file=PATH        Config.TokenFile
//	ca-file=PATH           Config.CAFile
//	clock=server           Config.ServerClock
//	layout=leaderelection  Config.LeaderElection
//	lazy=yes               register.Lazy
//
// For any other parameter FromURL returns driver.ErrInvalid. opts are applied after the parameters
// of the URL. ctx bounds only the opening.
func FromURL(ctx context.Context, u *url.URL, opts ...register.Option) (*register.Store, error) {
	return kind.FromURL(ctx, u, opts...)
}

// Open opens a store. Unless the store is lazy, Open sends one request, which shows that the API
// server can be reached.
func Open(ctx context.Context, c Config, opts ...register.Option) (*register.Store, error) {
	t := &register.Target{Options: kind.Options}
	storekit.Apply(t, opts)
	l, err := connect(c, &t.Options)
	if err != nil {
		return nil, err
	}
	return register.Open(ctx, l, t.Options, t.Lazy)
}

// maxAnnotations is how long the annotations of an object may be together, in bytes.
const maxAnnotations = 256 << 10

var namespaceForm = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)

// connect makes the register, and says in o what it promises.
func connect(c Config, o *register.Options) (*leases, error) {
	a, err := c.access()
	if err != nil {
		return nil, err
	}
	if c.Namespace == "" {
		c.Namespace = a.namespace
	}
	if !namespaceForm.MatchString(c.Namespace) {
		return nil, storekit.Invalidf("the namespace: it has up to 63 lower-case letters, digits and hyphens")
	}
	if c.Prefix = strings.Trim(c.Prefix, "/"); c.Prefix != "" {
		c.Prefix += "/" // as in a URL: both must name the same objects
	}
	l := &leases{prefix: c.Prefix, clock: "observed", election: c.LeaderElection}
	if c.LeaderElection {
		if c.Prefix != "" || c.ServerClock {
			return nil, storekit.Invalidf("layout=leaderelection: client-go knows neither a prefix nor the clock of the servers; leave them out")
		}
		l.prefix = "leaderelection" // without a slash: it is no prefix of another store
	}
	o.MaxData = maxAnnotations - 4<<10 - len(l.prefix) // the other annotations
	if c.ServerClock {
		if o.Clock.Skew < 0 {
			return nil, storekit.Invalidf("skew: it is a duration from 0s to 1m")
		}
		l.clock, o.Clock = "server", register.Clock{Grain: time.Second, Skew: max(serverSkew, o.Clock.Skew)}
	}
	o.Where = a.base.JoinPath("/").String() // without namespace and prefix: they fail together
	base := a.base.JoinPath("apis/coordination.k8s.io/v1/namespaces", c.Namespace, "/")
	if c.Transport == nil {
		if c.Transport, err = a.transport(); err != nil {
			return nil, err
		}
	}
	l.Client = overhttp.New(base, c.Transport)
	l.Sign = a.sign
	return l, nil
}

// access returns how to reach the API server: at the Endpoint, by a kubeconfig, or from the pod.
func (c *Config) access() (*access, error) {
	a, err := c.server()
	if err != nil {
		return nil, err
	}
	if c.TokenFile != "" {
		a.token = fromFile(c.TokenFile)
	}
	if c.CAFile != "" {
		if a.ca, err = os.ReadFile(c.CAFile); err != nil {
			return nil, storekit.Invalidf("ca-file: %w", err)
		}
	}
	if a.base.Scheme == "http" && a.token != nil && !overhttp.Loopback(a.base.Hostname()) {
		return nil, storekit.Invalidf("the endpoint has an http URL, so the token could be read on the way; write https, or start kubectl proxy")
	}
	return a, nil
}

func (c *Config) server() (*access, error) {
	if c.Endpoint != "" {
		if c.Kubeconfig != "" || c.Context != "" {
			return nil, storekit.Invalidf("the endpoint: a kubeconfig names one, too; write only one of them")
		}
		base, err := register.ParseEndpoint(c.Endpoint)
		return &access{base: base, namespace: "default"}, err
	}
	host, port := os.Getenv("KUBERNETES_SERVICE_HOST"), os.Getenv("KUBERNETES_SERVICE_PORT")
	if host != "" && port != "" && c.Kubeconfig == "" && c.Context == "" {
		return c.pod(host, port)
	}
	files := kubeconfigFiles()
	if c.Kubeconfig != "" {
		files = []string{c.Kubeconfig}
	}
	k, err := readKubeconfig(files)
	if err != nil {
		return nil, err
	}
	if k == nil {
		return nil, storekit.Invalidf("this program does not run in a pod, and there is no kubeconfig %s; set KUBECONFIG, or start kubectl proxy and write endpoint=http://127.0.0.1:8001", strings.Join(files, " or "))
	}
	return k.access(c.Context)
}

// pod returns how a pod reaches its API server.
func (c *Config) pod(host, port string) (*access, error) {
	a := &access{base: &url.URL{Scheme: "https", Host: net.JoinHostPort(host, port)}, token: fromFile(account + "token")}
	if c.CAFile == "" {
		c.CAFile = account + "ca.crt"
	}
	if c.Namespace == "" {
		own, err := os.ReadFile(account + "namespace")
		if err != nil {
			return nil, storekit.Invalidf("the namespace of the pod is not known; write kubernetes://NAMESPACE")
		}
		a.namespace = strings.TrimSpace(string(own))
	}
	return a, nil
}
