package restored

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/padlock-go/padlock/internal/server"
)

// each puts a backup back while the processes reach the server, while they are kept out, and, if its
// locks have leases, when they have ended.
func each(t *testing.T, name string, w want, start func(*testing.T) place) {
	for when, change := range map[string]func(*want){
		"reached":  func(*want) {},
		"kept out": func(w *want) { w.keptOut = true },
		"old":      func(w *want) { w.old = true },
	} {
		w := w
		if change(&w); w.old && w.lives {
			continue // a lock of any age lives while its process renews others
		}
		t.Run(name+", "+when, func(t *testing.T) {
			t.Parallel()
			start(t).play(t, w)
		})
	}
}

// reached returns a place that processes reach through a proxy.
func reached(t *testing.T, s *server.Server, url string) place {
	proxy := server.NewProxy(t, s.Addr())
	return place{url: fmt.Sprintf(url, proxy.Addr()), ttl: 3 * time.Second, proxy: proxy, addr: s.Addr()}
}

// copied returns a place whose operator copies a file or directory of the server while it is down.
func copied(t *testing.T, s *server.Server, file, url string) place {
	kept := t.TempDir() + "/copy"
	file = s.Place().Path(file)
	p := reached(t, s, url)
	p.backUp = func() {
		s.Kill()
		run(t, "cp", "-a", file, kept)
		s.Restart(true)
	}
	p.putBack = func() {
		s.Kill()
		if err := os.RemoveAll(file); err != nil {
			t.Fatal(err)
		}
		run(t, "cp", "-a", kept, file)
		s.Restart(true)
	}
	return p
}

// TestPostgres puts back a copy of the data directory, and a dump into the server that runs.
func TestPostgres(t *testing.T) {
	t.Parallel()
	server.Thorough(t)
	const url = "postgres://postgres@%s/postgres?sslmode=disable"
	each(t, "copy", want{}, func(t *testing.T) place {
		return copied(t, server.Postgres(t, server.PostgresOptions{}), "data", url)
	})
	each(t, "dump", want{}, func(t *testing.T) place {
		s := server.Postgres(t, server.PostgresOptions{})
		dump, p := t.TempDir()+"/dump.sql", reached(t, s, url)
		p.backUp = func() { run(t, "pg_dump", "--clean", "--if-exists", "-f", dump, "-d", s.URL()) }
		p.putBack = func() { run(t, "psql", "-qX", "-v", "ON_ERROR_STOP=1", "-1", "-f", dump, s.URL()) }
		return p
	})
}

// TestMariaDB puts back a copy of the data directory, and a dump into the server that runs.
func TestMariaDB(t *testing.T) {
	t.Parallel()
	server.Thorough(t)
	each(t, "copy", want{}, func(t *testing.T) place {
		return copied(t, server.MariaDB(t), "data", "mysql://root@%s/mysql")
	})
	each(t, "dump", want{}, func(t *testing.T) place {
		s := server.MariaDB(t)
		client := []string{"--no-defaults", "--protocol=tcp", "--host=127.0.0.1", "--port=" + strconv.Itoa(s.Place().Port), "--user=root"}
		run(t, "mariadb", append(client, "-e", "CREATE DATABASE shop")...)
		dump, p := t.TempDir()+"/dump.sql", reached(t, s, "mysql://root@%s/shop")
		p.backUp = func() { run(t, "mariadb-dump", append(client, "--result-file="+dump, "shop")...) }
		p.putBack = func() { run(t, "mariadb", append(client, "shop", "-e", "source "+dump)...) }
		return p
	})
}

// TestSQLite puts a copy in the place of the file, and writes a copy into the file.
func TestSQLite(t *testing.T) {
	t.Parallel()
	server.Thorough(t)
	for name, back := range map[string]func(t *testing.T, kept, file string){
		"copy": func(t *testing.T, kept, file string) {
			for _, f := range []string{"-wal", "-shm"} {
				if err := os.RemoveAll(file + f); err != nil {
					t.Fatal(err)
				}
			}
			run(t, "mv", kept, file)
		},
		"restore": func(t *testing.T, kept, file string) { run(t, "sqlite3", file, ".timeout 9000", ".restore "+kept) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file, kept := filepath.Join(t.TempDir(), "locks.db"), t.TempDir()+"/copy.db"
			place{url: "sqlite://" + file, ttl: 3 * time.Second, backUp: func() {
				run(t, "sqlite3", file, ".timeout 9000", ".backup "+kept)
			}, putBack: func() { back(t, kept, file) }}.play(t, want{})
		})
	}
}
