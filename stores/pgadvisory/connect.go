package pgadvisory

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/login"
	"github.com/padlock-go/padlock/storekit"
)

const (
	// minVersion is the first version with idle_session_timeout and
	// client_connection_check_interval.
	minVersion = 14
	// ownName is the beginning of the application_name of every padlock session.
	ownName = "padlock "
)

// A dialer makes connections to one server.
type dialer struct {
	server *pgconn.Config
	cfg    *config
	system atomic.Value // the string that identifies the data of the server
	// database is the string with the name of the database in the server. Behind a pooler, the URL
	// may have another name for it.
	database atomic.Value
}

// checkTLS rejects settings with which an attacker on the network can switch encryption off.
func checkTLS(server *pgconn.Config) error {
	type host struct {
		name string
		port uint16
	}
	encrypted := map[host]bool{{server.Host, server.Port}: server.TLSConfig != nil}
	for _, f := range server.Fallbacks {
		h := host{f.Host, f.Port}
		was, seen := encrypted[h]
		if seen && was != (f.TLSConfig != nil) && !login.Local(f.Host) {
			return storekit.Invalidf("the connection to %s may fall back to plain text, as sslmode prefer (the default) and allow do; write sslmode=verify-full (with sslrootcert=FILE for a CA of your own), sslmode=require, or sslmode=disable", f.Host)
		}
		encrypted[h] = f.TLSConfig != nil
	}
	return nil
}

// Connect implements advisory.Dialect.
func (d *dialer) Connect(ctx context.Context) (*conn, error) {
	server := d.server.Copy()
	if d.cfg.password != nil {
		password, err := d.cfg.password()
		if err != nil {
			return nil, fmt.Errorf("%w: %w", driver.ErrUnavailable, err)
		}
		server.Password = password
	}
	server.RuntimeParams["application_name"] = applicationName()
	pg, err := pgconn.ConnectConfig(ctx, server)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", driver.ErrUnavailable, login.Explain(reason(err), server.Password, d.server.Password, server.User))
	}
	return newConn(pg, d.cfg), nil
}

// reason returns an error of pgconn without its first part, which names the user and the database.
func reason(err error) error {
	var connecting *pgconn.ConnectError
	if errors.As(err, &connecting) {
		return connecting.Unwrap()
	}
	return err
}

// applicationName returns a name for this process. Administrators see it in pg_stat_activity, and
// padlock reads it there. The server keeps 63 bytes of it.
func applicationName() string {
	host, _ := os.Hostname()
	pid := strconv.Itoa(os.Getpid())
	if room := 63 - len(ownName) - 1 - len(pid); len(host) > room {
		host = host[:room]
	}
	return ownName + pid + " " + host
}

// SetUp implements advisory.Dialect. The settings are sent as statements, because poolers reject
// them in the startup message.
func (d *dialer) SetUp(c *conn) error {
	version, _, _ := strings.Cut(c.pg.ParameterStatus("server_version"), ".")
	if n, err := strconv.Atoi(strings.TrimRight(version, "abcdefghijklmnopqrstuvwxyz ")); err == nil && n < minVersion {
		return storekit.Invalidf("the server is PostgreSQL %d; advisory locks need %d or newer: use a lease table (package sqlstore)", n, minVersion)
	}
	seconds := func(t time.Duration) string { return strconv.Itoa(max(1, int(t.Round(time.Second)/time.Second))) }
	settings := [][2]string{
		{"idle_session_timeout", ms(d.cfg.SessionTimeout())}, {"statement_timeout", "0"}, {"idle_in_transaction_session_timeout", "0"},
		{"lock_timeout", ms(d.cfg.LossDelay / 5)}, // limits the wait for a row of the table of fences
		{"default_transaction_isolation", "read committed"}, {"default_transaction_read_only", "off"},
		{"plan_cache_mode", "force_generic_plan"}, // the statements are simple and run often
		{"client_connection_check_interval", "1s"},
		// These settings are about the server's own connection, which behind a proxy or a pooler is
		// not the client's. They end the session of a client that waits in the queue.
		{"tcp_keepalives_idle", seconds(d.cfg.LossDelay)}, {"tcp_keepalives_interval", seconds(d.cfg.LossDelay / 3)}, {"tcp_keepalives_count", "3"},
		{"tcp_user_timeout", ms(d.cfg.SessionTimeout())},
	}
	sql := "SELECT pg_backend_pid(), (SELECT " + startedAt + " FROM pg_stat_activity WHERE pid = pg_backend_pid()), pg_is_in_recovery(), current_database()" +
		", (SELECT count(*) FROM pg_language WHERE lanname = 'plpgsql' AND has_language_privilege(oid, 'USAGE'))"
	for _, s := range settings {
		sql += ", set_config('" + s[0] + "', '" + s[1] + "', false)"
	}
	rows, err := c.exec(&statement{"padlock_setup", sql})
	if err != nil {
		return err
	}
	row := rows[0]
	if string(row[2]) == "t" && !d.cfg.Lenient {
		return fmt.Errorf("%w: the server is a standby, whose locks the primary does not see; connect to the primary (target_session_attrs=read-write)", driver.ErrUnavailable)
	}
	pid, _ := strconv.ParseUint(string(row[0]), 10, 32)
	c.pid, c.start = uint32(pid), string(row[1])
	d.database.Store(string(row[3]))
	c.plpgsql = string(row[4]) == "1"
	c.pooled = c.pid != c.pg.PID() // a pooler does not give its clients the process id of the server's process
	if d.system.Load() == nil {
		d.identify(c)
	}
	return nil
}

// ms writes a setting of the server in milliseconds.
func ms(t time.Duration) string { return strconv.FormatInt(t.Milliseconds(), 10) }

// identify reads the identifier that distinguishes servers. Some servers do not let every user read
// it.
func (d *dialer) identify(c *conn) {
	if rows, err := c.exec(&statement{"padlock_system", "SELECT system_identifier FROM pg_control_system()"}); err == nil {
		d.system.Store(string(rows[0][0]))
	}
}

// Conflict implements advisory.Dialect.
func (d *dialer) Conflict(c, other *conn) error {
	if other.pid == c.pid && other.start == c.start {
		return errTransactionMode
	}
	return nil
}

// Probes implements advisory.Dialect. Only a pooler can share a session.
func (d *dialer) Probes(c *conn, _ bool) int {
	if c.pooled {
		return 3
	}
	return 0
}
