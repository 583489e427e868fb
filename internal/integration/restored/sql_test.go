package restored

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/padlock-go/padlock/internal/server"
)

// copied returns a place whose operator copies a file or directory of the server while it is down.
func copied(t *testing.T, s *server.Server, file, url string) place {
	kept := t.TempDir() + "/copy"
	file = s.Place().Path(file)
	return place{url, 3 * time.Second, func() {
		s.Kill()
		run(t, "cp", "-a", file, kept)
		s.Restart(true)
	}, func() {
		s.Kill()
		if err := os.RemoveAll(file); err != nil {
			t.Fatal(err)
		}
		run(t, "cp", "-a", kept, file)
		s.Restart(true)
	}}
}

// TestPostgres puts back a copy of the data directory, and a dump into the server that runs.
func TestPostgres(t *testing.T) {
	t.Parallel()
	t.Run("copy", func(t *testing.T) {
		t.Parallel()
		s := server.Postgres(t, server.PostgresOptions{})
		copied(t, s, "data", s.URL()).play(t, want{})
	})
	t.Run("dump", func(t *testing.T) {
		t.Parallel()
		s := server.Postgres(t, server.PostgresOptions{})
		dump := t.TempDir() + "/dump.sql"
		place{s.URL(), 3 * time.Second, func() {
			run(t, "pg_dump", "--clean", "--if-exists", "-f", dump, "-d", s.URL())
		}, func() {
			run(t, "psql", "-qX", "-v", "ON_ERROR_STOP=1", "-1", "-f", dump, s.URL())
		}}.play(t, want{})
	})
}

// TestMariaDB puts back a copy of the data directory, and a dump into the server that runs.
func TestMariaDB(t *testing.T) {
	t.Parallel()
	t.Run("copy", func(t *testing.T) {
		t.Parallel()
		s := server.MariaDB(t)
		copied(t, s, "data", "mysql://root@"+s.Addr()+"/mysql").play(t, want{})
	})
	t.Run("dump", func(t *testing.T) {
		t.Parallel()
		s := server.MariaDB(t)
		client := []string{"--no-defaults", "--protocol=tcp", "--host=127.0.0.1", "--port=" + strconv.Itoa(s.Place().Port), "--user=root"}
		run(t, "mariadb", append(client, "-e", "CREATE DATABASE shop")...)
		dump := t.TempDir() + "/dump.sql"
		place{"mysql://root@" + s.Addr() + "/shop", 3 * time.Second, func() {
			run(t, "mariadb-dump", append(client, "--result-file="+dump, "shop")...)
		}, func() {
			run(t, "mariadb", append(client, "shop", "-e", "source "+dump)...)
		}}.play(t, want{})
	})
}

// TestSQLite puts a copy in the place of the file, and writes a copy into the file.
func TestSQLite(t *testing.T) {
	t.Parallel()
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
			place{"sqlite://" + file, 3 * time.Second, func() {
				run(t, "sqlite3", file, ".timeout 9000", ".backup "+kept)
			}, func() { back(t, kept, file) }}.play(t, want{})
		})
	}
}
