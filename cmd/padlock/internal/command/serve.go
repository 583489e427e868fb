package command

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/padlock-go/padlock/cmd/padlock/internal/serve"
)

const serveLong = `serve shows the locks of the store on a web page: which are held and by whom, which are
stuck, and what many wait for. The page changes by itself. serve also has /metrics for
Prometheus, /api/locks (JSON), /healthz and /readyz.

serve listens on 127.0.0.1:7925, where every program of this machine may read it without
a token. Any other address needs --tls-cert, --tls-key and --token-file, or --insecure. A
socket of systemd (LISTEN_FDS) takes the place of --listen. Only padlock-all has the page
and /metrics; padlock runs it, if it is next to padlock or in PATH. Without padlock-all,
padlock serves only the API, /healthz and /readyz, with --api.

The page is read-only. With --allow-break and a token that has the right "break", locks
can be broken on it, with a reason for the audit log. The log goes to standard error,
one JSON object per line.

A token file has a line for each token: NAME SECRET RIGHTS [PREFIX]. SECRET is the token,
or sha256: and its hash; RIGHTS is read, break, acquire or ask, or several with commas;
with PREFIX the token is good only for names that begin with it. Changes of the file take
effect without a restart.

With --api, programs in every language take and release locks by POST requests with JSON
to /v1/acquire and others; /v1/openapi.json describes them. With a token file, each
request needs a token with the right acquire, read to look, or ask to ask a holder to
finish early. serve never renews a lock: the client does.

Exit status:
  0    a signal ended it
  64   the command line, the token file, the certificate or the store's URL is wrong
  69   the store cannot be used, or the address cannot be listened on
  74   the output could not be written`

func (a *app) serveCommand() *cobra.Command {
	set := &serve.Flags{}
	c := &cobra.Command{
		Use:   "serve [FLAGS]",
		Short: "Show the locks on a web page",
		Long:  serveLong,
		Example: `  padlock serve
  padlock serve --api
  padlock serve --token-file /etc/padlock/tokens --allow-break
  padlock serve --listen :7925 --tls-cert cert.pem --tls-key key.pem --token-file tokens`,
		DisableFlagsInUseLine: true,
		Args:                  noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			set.Chosen = c.Flags().Changed("listen")
			if err := watchable(set.Watch); err != nil {
				return err
			}
			return a.serve(c.Context(), set)
		},
	}
	set.Add(c.Flags())
	return c
}

func (a *app) serve(ctx context.Context, set *serve.Flags) error {
	s, err := serve.Listen(set)
	if err != nil {
		return serveFailure(err)
	}
	defer s.Close()
	l, err := a.locker(ctx, "")
	if err != nil {
		return err
	}
	defer a.close(l)
	ctx, stop := interruptible(ctx)
	defer stop()
	return serveFailure(a.runServe(s, ctx, serve.Source{
		Locker: l, Store: a.opened, Place: a.storeName(), History: a.history(a.opened), Log: a.stderr, Announce: a.announce,
	}))
}

// serveFailure returns the failure for an error of the server.
func serveFailure(err error) error {
	var why *serve.Error
	switch {
	case !errors.As(err, &why):
		return err
	case why.Usage:
		return usage("%s", why.Text)
	}
	return fail(exitUnavailable, "unavailable", "", "%s", why.Text)
}

// served is what serve prints in JSON when it listens.
type served struct {
	URL   string `json:"url"`
	Store string `json:"store"`
}

// announce prints the address of the page.
func (a *app) announce(url string) error {
	if a.json {
		return a.print(a.stdout, served{url, a.storeName()})
	}
	text := "the locks of %s are at %s\n"
	if a.programName != allName {
		text = "the locks of %s are at %s, for programs below /v1/; the page needs padlock-all\n"
	}
	_, err := fmt.Fprintf(a.stdout, text, a.place(), url)
	return err
}
