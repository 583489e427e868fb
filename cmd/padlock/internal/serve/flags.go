// Package serve is the server of padlock serve: who may use it, its page and its API.
package serve

import (
	"fmt"

	"github.com/spf13/pflag"

	"github.com/padlock-go/padlock/observe/sampler"
)

// Flags holds the flags of serve.
type Flags struct {
	listen            string
	Chosen            bool // --listen was given
	cert, key, tokens string
	clientCA          string
	insecure          bool
	hosts, Watch      []string
	proxies           []string
	allowBreak, api   bool
	maxNames          int
}

const defaultListen = "127.0.0.1:7925"

// Add adds the flags.
func (set *Flags) Add(f *pflag.FlagSet) {
	f.SortFlags = false
	f.StringVar(&set.listen, "listen", defaultListen, "listen on `HOST:PORT`")
	f.StringVar(&set.cert, "tls-cert", "", "the certificate (PEM), in `FILE`")
	f.StringVar(&set.key, "tls-key", "", "its key (PEM), in `FILE`")
	f.StringVar(&set.clientCA, "client-ca", "", "clients need a certificate that a CA in `FILE` (PEM) has signed")
	f.StringVar(&set.tokens, "token-file", "", "the tokens that visitors need, in `FILE`")
	f.BoolVar(&set.api, "api", false, "also take locks for programs, by HTTP requests to /v1/")
	f.BoolVar(&set.allowBreak, "allow-break", false, "let tokens with the right \"break\" break locks")
	f.StringArrayVar(&set.hosts, "allowed-host", nil, "browsers reach the page as `NAME`, for example through a proxy")
	f.StringArrayVar(&set.proxies, "trusted-proxy", nil, "believe X-Forwarded-For of the proxy at `ADDRESS`, or of a network of proxies: a client in it can choose its address")
	f.StringArrayVar(&set.Watch, "watch", nil, "also show `NAME` while it is free, or if the store cannot list names")
	f.IntVar(&set.maxNames, "max-names", sampler.DefaultMaxNames, "remember the past holds of at most `N` names that are free")
	f.BoolVar(&set.insecure, "insecure", false, "allow other addresses without TLS or tokens")
}

// Error is why the server cannot begin, or has ended.
type Error struct {
	Usage bool // the flags are wrong; otherwise, the address or the network cannot be used
	Text  string
}

func (e *Error) Error() string { return e.Text }

func wrongFlags(format string, args ...any) error {
	return &Error{true, fmt.Sprintf(format, args...)}
}
