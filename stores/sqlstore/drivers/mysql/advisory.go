package mysql

import (
	"context"
	"database/sql"
	"net"
	"net/url"
	"slices"

	"github.com/padlock-go/padlock/storekit/storeurl"
	"github.com/padlock-go/padlock/stores/mysqladvisory"
)

// AdvisoryOpener connects package mysqladvisory to servers. Its URLs are like those of [Opener],
// but have the scheme mysql+advisory, mysql2+advisory or mariadb+advisory. A URL with fences=no
// need not name a database. The parameters readTimeout and writeTimeout are not allowed: a
// statement that waits for a lock may take longer than they allow.
func AdvisoryOpener() mysqladvisory.Opener {
	return mysqladvisory.Opener{
		Parameters: slices.DeleteFunc(slices.Clone(parameters), func(p string) bool { return p == "readTimeout" || p == "writeTimeout" }),
		Open:       openAdvisory,
		Servers:    servers,
	}
}

// AdvisoryScheme describes the URLs of package mysqladvisory, for package open.
func AdvisoryScheme() storeurl.Scheme { return AdvisoryOpener().Scheme() }

func openAdvisory(u *url.URL, password func() (string, error)) (*sql.DB, error) {
	cfg, err := readURL(u)
	if err != nil {
		return nil, err
	}
	cfg.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
		if err == nil {
			mysqladvisory.Dialed(ctx, conn)
		}
		return conn, err
	}
	return connect(cfg, password)
}
