package mysqladvisory

import (
	"context"
	"strings"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/storekit/advisory"
)

// Status implements driver.Reporter.
func (s *Store) Status(ctx context.Context) ([]driver.Finding, error) {
	return advisory.Ask(ctx, s.kit, func(c *conn) ([]driver.Finding, error) {
		r, err := c.queryOne(statusQuery)
		if err != nil {
			return nil, err
		}
		out := []driver.Finding{version(r[0].String), readOnly(r[1].String)}
		for _, q := range []func(*conn) (driver.Finding, error){cluster, replica, checkForProxy, connections(r[2].String)} {
			f, err := q(c)
			if !c.Alive() {
				return nil, err
			}
			out = append(out, f)
		}
		return out, nil
	})
}

func version(v string) driver.Finding {
	f := driver.Finding{Name: "version", Value: v}
	if !strings.Contains(v, "MariaDB") {
		f.Advice = "padlock was tested with MariaDB and not with this server"
	}
	return f
}

func readOnly(v string) driver.Finding {
	f := driver.Finding{Name: "read-only", Value: v}
	if v != "0" && !strings.EqualFold(v, "OFF") {
		f.Advice = "it is read-only, as a replica is, and the primary does not see its locks; name the primary"
	}
	return f
}

// cluster tells whether the server belongs to a Galera cluster. Servers without Galera do not have
// the variable.
func cluster(c *conn) (driver.Finding, error) {
	f := driver.Finding{Name: "galera", Value: "OFF"}
	rows, err := c.query(clusters)
	switch {
	case err != nil:
		f.Value = driver.Unknown
	case len(rows) == 1:
		f.Value = rows[0][1].String
	}
	if strings.EqualFold(f.Value, "ON") {
		f.Advice = "a lock excludes only the clients of one node; use a lease table (mysql:)"
	}
	return f, err
}

// replica tells whether the server is a replica of another one. Not every user has the right to
// read that.
func replica(c *conn) (driver.Finding, error) {
	f := driver.Finding{Name: "replica", Value: "no"}
	rows, err := c.query("SHOW REPLICA STATUS")
	if err != nil && c.Alive() { // older servers know only the next statement
		rows, err = c.query("SHOW SLAVE STATUS")
	}
	switch {
	case err != nil:
		f.Value = driver.Unknown
	case len(rows) > 0:
		f.Value = "yes"
		f.Advice = "the primary does not see the locks of a replica; name the primary, unless all programs lock here"
	}
	return f, err
}

// checkForProxy pings the server. If a proxy shares sessions between clients, the ping may show
// this. In that case the connection ends, and Status returns an error.
func checkForProxy(c *conn) (driver.Finding, error) {
	return driver.Finding{Name: "proxy", Value: "none that shares sessions, as far as can be seen"}, c.verify("")
}

// connections tells how many connections the server has.
func connections(most string) func(c *conn) (driver.Finding, error) {
	return func(c *conn) (driver.Finding, error) {
		f := driver.Finding{Name: "connections", Value: driver.Unknown}
		rows, err := c.query("SHOW GLOBAL STATUS LIKE 'Threads_connected'")
		if err == nil && len(rows) == 1 {
			f.Value = rows[0][1].String + " of " + most
		}
		return f, err
	}
}
