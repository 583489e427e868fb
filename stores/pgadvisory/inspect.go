package pgadvisory

import (
	"context"
	"encoding/hex"
	"strconv"
	"strings"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/storekit/advisory"
)

// List implements driver.Admin. It reads the names from the table of fences, which has all names
// that padlock has taken.
func (s *Store) List(ctx context.Context, prefix string) ([]driver.State, error) {
	return advisory.List(ctx, s.inner, func(c *conn) ([]driver.State, error) {
		rows, err := c.exec(&s.dialect.sql.names, bytea(prefix))
		var states []driver.State
		for _, row := range rows {
			name, _ := hex.DecodeString(string(row[0]))
			if n := len(states); n == 0 || states[n-1].Name != string(name) {
				states = append(states, driver.State{Name: string(name), Waiters: -1, Fence: parse(row[4])})
			}
			last := &states[len(states)-1]
			last.Holds = append(last.Holds, holder(row[1:4]))
		}
		return states, err
	})
}

// holder reads a row of holderColumns.
func holder(row [][]byte) driver.Hold {
	h := driver.Hold{Shared: string(row[1]) == "t"}
	own, ok := strings.CutPrefix(string(row[2]), ownName)
	if !ok {
		h.Foreign = true
		h.PID = int(parse(row[0]))
		h.Label = "session of PostgreSQL"
		return h
	}
	pid, host, _ := strings.Cut(own, " ")
	h.PID, _ = strconv.Atoi(pid)
	h.Host = host
	return h
}

// Status implements driver.Reporter.
func (s *Store) Status(ctx context.Context) ([]driver.Finding, error) {
	return advisory.Ask(ctx, s.inner, func(c *conn) ([]driver.Finding, error) {
		rows, err := c.exec(&status)
		if err != nil {
			return nil, err
		}
		return findings(c, rows[0]), nil
	})
}

var status = statement{"padlock_status", "SELECT current_setting('server_version'), pg_is_in_recovery(), " +
	"current_setting('max_locks_per_transaction')::int * (current_setting('max_connections')::int + current_setting('max_prepared_transactions')::int), " +
	"(SELECT count(*) FROM pg_locks), current_setting('max_connections'), " +
	"(SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend')"}

func findings(c *conn, row [][]byte) []driver.Finding {
	out := []driver.Finding{
		{Name: "version", Value: string(row[0])},
		{Name: "role", Value: "primary"},
		{Name: "pooler", Value: "none"},
		{Name: "locks", Value: string(row[3]) + " of about " + string(row[2])},
		{Name: "connections", Value: string(row[5]) + " of " + string(row[4])},
	}
	if string(row[1]) == "t" {
		out[1] = driver.Finding{Name: "role", Value: "standby", Advice: "the primary does not see the locks of a standby; connect to the primary"}
	}
	if c.pooled {
		out[2] = driver.Finding{Name: "pooler", Value: "in session mode, as far as can be seen", Advice: "make sure that pool_mode is session; in transaction mode advisory locks exclude nobody"}
	}
	if parse(row[3])*2 > parse(row[2]) {
		out[3].Advice = "more than half of the lock table is used; raise max_locks_per_transaction"
	}
	return out
}
