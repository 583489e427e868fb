package pgadvisory_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/stores/pgadvisory"
)

func startPHP(t *testing.T, srv *server.Server) *server.PHP {
	t.Helper()
	needs := server.PHPNeeds{Extension: "pdo_pgsql", Symfony: []string{"Lock"}}
	return server.StartPHP(t, needs, "testdata/lock.php", dsn(t, srv))
}

// dsn is that of PDO.
func dsn(t testing.TB, srv *server.Server) string {
	t.Helper()
	config, err := pgx.ParseConfig(srv.URL())
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("pgsql:host=%s;port=%d;dbname=%s", config.Host, config.Port, config.Database)
}

// PHP and padlock exclude each other in both directions and both modes.
func TestSymfony(t *testing.T) {
	t.Parallel()
	srv := server.SharedPostgres(t)
	p := startPHP(t, srv)
	s := mustOpen(t, srv.URL(), pgadvisory.SymfonyLayout())
	for _, name := range []string{"report/42:daily run", "a", "é", "job " + strings.Repeat("x", 300)} {
		r := request(name)
		take(t, s, r)
		p.Ask("no", "acquire "+name)
		p.Ask("no", "read "+name)
		release(t, s, r)

		p.Ask("yes", "acquire "+name)
		if held := refused(t, s, request(name)); !held.Foreign() {
			t.Errorf("PHP has the lock; the error says %+v", held.Holds)
		}
		refused(t, s, reader(name))
		p.Ask("yes", "release "+name)

		read := reader(name)
		take(t, s, read)
		p.Ask("yes", "read "+name)
		p.Ask("no", "acquire "+name)
		refused(t, s, request(name))
		write := read
		write.Shared = false
		if _, err := s.Convert(t.Context(), write); err == nil {
			t.Error("a reader was promoted while PHP reads")
		}
		p.Ask("yes", "release "+name)
		if _, err := s.Convert(t.Context(), write); err != nil {
			t.Errorf("promotion of the only reader: %v", err)
		}
		p.Ask("no", "read "+name)
		release(t, s, read)
	}
	p.Ask("yes", "acquire a")
	own := mustOpen(t, srv.URL())
	r := request("a")
	take(t, own, r) // another layout, another lock
	release(t, own, r)
}

// A waiter gets a lock that PHP gives back.
func TestWaitForSymfony(t *testing.T) {
	t.Parallel()
	srv := server.SharedPostgres(t)
	p := startPHP(t, srv)
	s := mustOpen(t, srv.URL(), pgadvisory.SymfonyLayout())
	p.Ask("yes", "acquire job")
	r := request("job")
	granted := make(chan error, 1)
	go func() {
		_, err := s.Wait(t.Context(), r, true)
		granted <- err
	}()
	conn := connect(t, srv.URL())
	queued(t, conn)
	p.Ask("yes", "release job")
	if err := <-granted; err != nil {
		t.Fatal(err)
	}
	take(t, s, r)
	p.Ask("no", "acquire job")
	release(t, s, r)
	p.Ask("yes", "acquire job")
}
