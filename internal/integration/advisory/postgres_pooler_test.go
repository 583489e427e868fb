package advisory_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/drivertest"
	"github.com/padlock-go/padlock/internal/server"
)

// In transaction mode, advisory locks exclude nobody. The store refuses such a pooler, whether the
// pool is idle or other clients use it.
func TestTransactionMode(t *testing.T) {
	t.Parallel()
	url := server.PgBouncer(t, postgres.shared(t), "transaction").URL()
	for range 3 {
		s, err := postgres.open(t.Context(), url, "")
		if err == nil {
			s.Close()
		}
		if !errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), "pool_mode=session") || !strings.Contains(err.Error(), "sqlstore") {
			t.Errorf("a pooler in transaction mode: %v", err)
		}
	}
	for range 5 {
		run(t, postgres.db(t, url+"&default_query_exec_mode=simple_protocol"), "SELECT 1")
	}
	if _, err := postgres.mustOpen(t, url, "lazy=yes").Acquire(t.Context(), request("job")); !errors.Is(err, driver.ErrInvalid) {
		t.Errorf("a lazy store behind a pooler in transaction mode: %v", err)
	}
}

// In session mode the store works as without a pooler.
func TestSessionMode(t *testing.T) {
	server.Thorough(t)
	t.Parallel()
	url := server.PgBouncer(t, postgres.own(t), "session", "default_pool_size = 200", "max_client_conn = 500").URL()
	drivertest.Run(t, postgres.harness(t, url, postgres.patient))
	found, err := postgres.mustOpen(t, url, "").(driver.Reporter).Status(t.Context())
	noError(t, err)
	for _, f := range found {
		if f.Name == "pooler" && !strings.Contains(f.Value, "session") {
			t.Errorf("the pooler was not noticed: %+v", f)
		}
	}
}
