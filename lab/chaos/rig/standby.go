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
func withStandby(s *Site) (*setup, error) {
	t := &takeover{site: s}
	if err := try(func() { t.primary = postgresServer(s, "") }); err != nil {
		return nil, err
	}
	if err := t.addStandby(); err != nil {
		return nil, err
	}
	var err error
	if t.links, err = s.links([]*server.Server{t.primary}); err != nil {
		return nil, err
	}
	var stage []string
	for _, worker := range t.links {
		stage = append(stage, postgreSQL.url(worker[0].Addr()))
	}
	faults := append(networkFaults(t.links), t.fault())
	set := &setup{stages: [][]string{stage}, open: Open, faults: faults, load: longLeases, log: func() string { return t.primary.Log() }}
	return set, postgreSQL.prepare(postgreSQL.url(t.primary.Addr()))
}

// longLeases makes leases and holds longer than a failover. Otherwise all of them would end before
// the new primary can grant their names to somebody else.
func longLeases(l *soak.Load) {
	l.MinTTL, l.MaxTTL = 4*time.Second, 6*time.Second
	l.MaxHold = 2 * time.Second
}

func (t *takeover) fault() soak.Fault {
	return soak.Fault{Kind: "failover", On: soak.Targets(serverTarget, 1), Last: 300 * time.Millisecond, Grace: 6 * time.Second, Weight: 3, Begin: func(*rand.Rand, int) (func() error, error) {
		return t.promote, t.stopReplication()
	}}
}

// stopReplication stops the process of the primary that sends its changes to the standby.
func (t *takeover) stopReplication() error {
	return postgreSQL.administer(postgreSQL.admin(t.primary.Addr()), func(ctx context.Context, conn *sql.Conn) error {
		var pid int
		if err := conn.QueryRowContext(ctx, "SELECT pid FROM pg_stat_replication").Scan(&pid); err != nil {
			return err
		}
		return syscall.Kill(pid, syscall.SIGSTOP)
	})
}

// promote kills the primary, makes the standby the primary, and starts a new standby.
func (t *takeover) promote() error {
	if err := try(t.primary.Kill); err != nil {
		return err
	}
	t.primary = t.standby
	if err := t.run("SELECT pg_promote()"); err != nil {
		return err
	}
	for _, worker := range t.links {
		worker[0].Point(t.primary.Addr())
	}
	return t.addStandby()
}

// addStandby starts a standby. It returns when each commit waits for the standby. Otherwise a lock
// that was granted could be missing after the next failover.
func (t *takeover) addStandby() error {
	err := try(func() {
		t.standby = server.PostgresStandby(&t.site.host, t.primary, server.PostgresOptions{Args: postgresArgs})
	})
	if err == nil {
		err = t.waitFor("state = 'streaming'")
	}
	if err == nil {
		err = t.run("ALTER SYSTEM SET synchronous_standby_names = 'standby'", "SELECT pg_reload_conf()")
	}
	if err == nil {
		err = t.waitFor("sync_state = 'sync'")
	}
	return err
}

// run runs statements on the primary.
func (t *takeover) run(statements ...string) error {
	return postgreSQL.administer(postgreSQL.admin(t.primary.Addr()), func(ctx context.Context, conn *sql.Conn) error {
		return execute(ctx, conn, statements)
	})
}

// waitFor waits until the condition is true for the standby.
func (t *takeover) waitFor(condition string) error {
	return postgreSQL.administer(postgreSQL.admin(t.primary.Addr()), func(ctx context.Context, conn *sql.Conn) error {
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
