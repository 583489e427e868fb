package server

import (
	"context"
	"fmt"
	"io"
	"os"
	"strconv"
	"testing"
	"time"
)

// MariaDB starts a MariaDB server with its own data directory. The user root needs no password. URL
// returns a DSN for the Go driver. env is added to the server's environment.
func MariaDB(t testing.TB, env ...string) *Server {
	t.Helper()
	return MariaDBWith(t, MariaDBOptions{Env: env})
}

// MariaDBOptions are the settings of a MariaDB server.
type MariaDBOptions struct {
	Env  []string // added to the server's environment
	Args []string // further arguments of mariadbd; they override the others
}

// MariaDBWith starts a MariaDB server with the settings o.
func MariaDBWith(t testing.TB, o MariaDBOptions) *Server {
	t.Helper()
	return Start(t, MariaDBSpec(o))
}

// MariaDBSpec returns the Spec with which MariaDBWith starts a server. A test may change the Spec.
func MariaDBSpec(o MariaDBOptions) Spec {
	return Spec{
		Name: "mariadb", Package: "mariadb-server", Binary: []string{"mariadbd", "/usr/sbin/mariadbd", "mysqld"},
		Env: o.Env, Timeout: 3 * time.Minute,
		Prepare: func(ctx context.Context, p Place) error {
			// On startup, MariaDB deletes all temporary tables in its directory for temporary
			// files. So each server needs its own directory for temporary files.
			if err := os.Mkdir(p.Path("tmp"), 0o700); err != nil {
				return err
			}
			args := []string{"--no-defaults", "--auth-root-authentication-method=normal", "--skip-test-db", smallLog}
			return fromTemplate(ctx, p, args, func() error {
				return p.Run(ctx, "mariadb-install-db", asRoot(append(args, "--datadir="+p.Path("data"), "--tmpdir="+p.Path("tmp"))...)...)
			})
		},
		// The server writes by system calls, which end before its process does. A direct write by
		// io_uring can reach the disk after the process was killed and reaped, while the next
		// process reads the same file. That is the likely reason why InnoDB once found its data
		// corrupted, in a soak.
		Args: func(p Place) []string {
			return asRoot(append([]string{"--no-defaults", "--datadir=" + p.Path("data"), "--tmpdir=" + p.Path("tmp"), "--port=" + strconv.Itoa(p.Port), "--bind-address=127.0.0.1",
				"--socket=" + p.Path("s.sock"), "--pid-file=" + p.Path("pid"), "--innodb-flush-log-at-trx-commit=2", smallLog, "--innodb-use-native-aio=OFF", "--max-connections=300"}, o.Args...)...)
		},
		Ready: mariaReady,
		URL:   func(p Place) string { return "root@tcp(" + p.Addr() + ")/mysql" },
	}
}

// smallLog keeps the log of a new server at a tenth of what it is without. Each server gets a copy.
const smallLog = "--innodb-log-file-size=8M"

// asRoot adds an argument that lets a program of MariaDB run as root, if the test runs as root.
func asRoot(args ...string) []string {
	if os.Geteuid() == 0 {
		args = append(args, "--user=root")
	}
	return args
}

// mariaReady waits for the server's greeting. A server that is still starting does not send one.
func mariaReady(ctx context.Context, p Place) error {
	conn, err := dial(ctx, p.Addr(), time.Second)
	if err != nil {
		return err
	}
	defer conn.Close()
	var head [5]byte // beginning of a packet: its length and number, then the protocol's version
	if _, err := io.ReadFull(conn, head[:]); err != nil {
		return err
	}
	if head[4] != 10 {
		return fmt.Errorf("it greets with %x", head)
	}
	return nil
}
