package sqlstore_test

import (
	"strings"
	"testing"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/stores/sqlstore"
	"github.com/padlock-go/padlock/stores/sqlstore/drivers/mysql"
	"github.com/padlock-go/padlock/stores/sqlstore/drivers/postgres"
)

// TestLooker checks what docs/stores/sql.md says of a user that may only read the tables: it sees
// the locks and takes none.
func TestLooker(t *testing.T) {
	t.Parallel()
	for name, start := range map[string]func(t *testing.T) (app, looker string, o sqlstore.Opener){
		"postgresql": func(t *testing.T) (string, string, sqlstore.Opener) {
			srv := server.Postgres(t, server.PostgresOptions{})
			limitedPostgres(t, srv.URL(), "public")
			run(t, "pgx", srv.URL(), "CREATE USER looker", "GRANT SELECT ON padlock_locks, padlock_grants, padlock_meta, padlock_runs TO looker")
			as := func(user string) string { return strings.Replace(srv.URL(), "postgres@", user+"@", 1) }
			return as("app"), as("looker"), postgres.Opener()
		},
		"mariadb": func(t *testing.T) (string, string, sqlstore.Opener) {
			srv := server.MariaDB(t)
			limitedMariaDB(t, srv.URL(), "word")
			run(t, "mysql", srv.URL(), "CREATE USER looker", "GRANT SELECT ON locks.* TO looker")
			return "mysql://app:word@" + srv.Addr() + "/locks", "mysql://looker@" + srv.Addr() + "/locks", mysql.Opener()
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			app, looker, o := start(t)
			s, err := fromURL(t.Context(), app, o)
			noError(t, err)
			defer s.Close()
			noError(t, take(t, s, "job", "token"))

			look, err := fromURL(t.Context(), looker, o)
			noError(t, err)
			defer look.Close()
			admin, _ := driver.As[driver.Admin](look)
			state, err := admin.Inspect(t.Context(), "job")
			if err != nil || len(state.Holds) != 1 {
				t.Errorf("Inspect returns %+v, %v", state, err)
			}
			if list, err := admin.List(t.Context(), ""); err != nil || len(list) != 1 {
				t.Errorf("List returns %+v, %v", list, err)
			}
			if err := take(t, look, "other", "token2"); err == nil {
				t.Error("the user that may only read has got a lock")
			}
		})
	}
}
