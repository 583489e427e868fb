package rig

import (
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"syscall"
	"time"

	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/lab/soak"
)

// takeover is a PostgreSQL server with a synchronous standby. Its fault stops the replication for a
// moment, kills the server and promotes the standby. Then it starts a new standby for the next
// failover. While the replication is stopped, no commit ends. If the server did not wait for the
// standby, the grants of this time would be lost.
type takeover struct {
	site             *Site
	primary, standby *server.Server
	links            [][]*server.Proxy
}

// withStandby returns the setup of a Row whose locks are in a PostgreSQL server with a standby.
func withStandby(s *Site) *setup {
	t := &takeover{site: s, primary: postgresServer(s, "")}
	t.addStandby()
	set := s.through([]*server.Server{t.primary}, func(at []string) string { return postgreSQL.url(at[0]) })
	t.links = set.links
	set.faults = append(set.faults, soak.Fault{Kind: "failover", On: soak.Targets(serverTarget, 1), Last: 300 * time.Millisecond, Grace: 6 * time.Second, Weight: 3, Begin: begin(func(*rand.Rand, int) func() {
		t.stopReplication()
		return t.promote
	})})
	set.faults = append(set.faults, ledToReplica(func() *pair { return &pair{primary: t.primary, replica: t.standby, links: t.links} }))
	set.load, set.log = longLeases, func() string { return t.primary.Log() }
	prepare(postgreSQL.url(t.primary.Addr()))
	return set
}

// longLeases makes leases and holds longer than a failover. Otherwise all of them would end before
// the new primary can grant their names to somebody else.
func longLeases(l *soak.Load) {
	l.MinTTL, l.MaxTTL = 4*time.Second, 6*time.Second
	l.MaxHold = 2 * time.Second
}

// stopReplication stops the process of the primary that sends its changes to the standby.
func (t *takeover) stopReplication() {
	t.ask(func(ctx context.Context, conn *sql.Conn) error {
		var pid int
		if err := conn.QueryRowContext(ctx, "SELECT pid FROM pg_stat_replication").Scan(&pid); err != nil {
			return err
		}
		return syscall.Kill(pid, syscall.SIGSTOP)
	})
}

// promote kills the primary, makes the standby the primary, and starts a new standby.
func (t *takeover) promote() {
	t.primary.Kill()
	t.primary = t.standby
	t.run("SELECT pg_promote()")
	for _, worker := range t.links {
		worker[0].Point(t.primary.Addr())
	}
	t.addStandby()
}

// addStandby starts a standby. It returns when each commit waits for the standby. Otherwise a lock
// that was granted could be missing after the next failover.
func (t *takeover) addStandby() {
	t.standby = server.PostgresStandby(&t.site.host, t.primary, server.PostgresOptions{Args: postgresArgs})
	t.waitFor("state = 'streaming'")
	t.run("ALTER SYSTEM SET synchronous_standby_names = 'standby'", "SELECT pg_reload_conf()")
	t.waitFor("sync_state = 'sync'")
}

// ask calls f with a connection to the primary.
func (t *takeover) ask(f func(ctx context.Context, conn *sql.Conn) error) {
	must(postgreSQL.administer(postgreSQL.admin(t.primary.Addr()), f))
}

// run runs statements on the primary.
func (t *takeover) run(statements ...string) {
	t.ask(func(ctx context.Context, conn *sql.Conn) error { return execute(ctx, conn, statements) })
}

// waitFor waits until the condition is true for the standby.
func (t *takeover) waitFor(condition string) {
	t.ask(func(ctx context.Context, conn *sql.Conn) error {
		for {
			var n int
			err := conn.QueryRowContext(ctx, "SELECT count(*) FROM pg_stat_replication WHERE "+condition).Scan(&n)
			if err != nil {
				return fmt.Errorf("the standby has not reached %s: %w", condition, err)
			}
			if n == 1 {
				return nil
			}
			<-time.After(20 * time.Millisecond)
		}
	})
}
