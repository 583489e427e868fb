package server

import (
	"context"
	"fmt"
	"strings"
	"testing"
)

// PgBouncer starts PgBouncer in front of the database of a PostgreSQL server's URL. mode is session,
// transaction or statement. settings are further lines of its configuration.
func PgBouncer(t testing.TB, postgres *Server, mode string, settings ...string) *Server {
	t.Helper()
	host, port, _ := strings.Cut(postgres.Addr(), ":")
	_, database, _ := strings.Cut(postgres.URL(), postgres.Addr()+"/")
	database, _, _ = strings.Cut(database, "?")
	return Start(t, Spec{
		Name:    "pgbouncer",
		Package: "pgbouncer",
		Binary:  []string{"pgbouncer", "/usr/sbin/pgbouncer"},
		RunAs:   "postgres",
		Prepare: func(_ context.Context, p Place) error {
			text := fmt.Sprintf("[databases]\npostgres = host=%s port=%s dbname=%s user=postgres\n[pgbouncer]\n"+
				"listen_addr = 127.0.0.1\nlisten_port = %d\nunix_socket_dir =\nauth_type = any\npool_mode = %s\n"+
				"default_pool_size = 20\nmax_client_conn = 400\nserver_lifetime = 60\n%s\n",
				host, port, database, p.Port, mode, strings.Join(settings, "\n"))
			return p.Write("pgbouncer.ini", []byte(text))
		},
		// With -q it would write no log, and nobody could see why it ended.
		Args:  func(p Place) []string { return []string{p.Path("pgbouncer.ini")} },
		Ready: postgresReady,
		URL: func(p Place) string {
			return "postgres://postgres@" + p.Addr() + "/postgres?sslmode=disable"
		},
	})
}
