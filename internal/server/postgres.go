package server

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// PostgresOptions are the settings of a PostgreSQL server. With the zero value, the user "postgres"
// needs no password, and nothing is synced to disk. Data that are not synced survive a crash of the
// server, but not of the machine.
type PostgresOptions struct {
	Env    []string // added to the server's environment
	Args   []string // further arguments of postgres ("-c", "max_connections=20"); they override the arguments of this package
	Within string   // the data directory is made in this directory; the user postgres must be able to reach it
}

// Postgres starts a PostgreSQL server with its own data directory. Its unix socket is in
// Place().Dir.
func Postgres(t testing.TB, o PostgresOptions) *Server {
	t.Helper()
	return Start(t, postgresSpec(o))
}

func postgresSpec(o PostgresOptions) Spec {
	return Spec{
		Name:    "postgres",
		Package: "postgresql",
		Binary:  []string{"/usr/lib/postgresql/*/bin/postgres", "postgres"},
		RunAs:   "postgres",
		Within:  o.Within,
		Env:     o.Env,
		Timeout: 3 * time.Minute, // initdb takes some seconds, and much longer on a busy machine
		Prepare: initdb,
		Remains: removeSegment,
		Ready:   postgresReady,
		Args: func(p Place) []string {
			args := []string{"-D", p.Path("data"), "-k", p.Dir, "-p", strconv.Itoa(p.Port),
				"-c", "listen_addresses=127.0.0.1", "-c", "fsync=off",
				"-c", "dynamic_shared_memory_type=mmap"} // in the data directory, and so removed with it
			return append(args, o.Args...)
		},
		URL: func(p Place) string {
			return "postgres://postgres@" + p.Addr() + "/postgres?sslmode=disable"
		},
	}
}

// PostgresStandby starts a server that follows primary by streaming replication, with a copy of its
// data. Its name in synchronous_standby_names is "standby". To promote the standby, call
// pg_promote() on it.
func PostgresStandby(t testing.TB, primary *Server, o PostgresOptions) *Server {
	t.Helper()
	o.Args = append([]string{"-c", "cluster_name=standby", "-c", "wal_retrieve_retry_interval=100ms"}, o.Args...)
	spec := postgresSpec(o)
	spec.Prepare = func(ctx context.Context, p Place) error {
		binary, err := sibling(p.Binary, "pg_basebackup")
		if err != nil {
			return err
		}
		return p.Run(ctx, binary, "-D", p.Path("data"), "-d", primary.URL(), "-R", "-c", "fast", "-X", "stream", "--no-sync")
	}
	return Start(t, spec)
}

// removeSegment removes the segment of shared memory of System V that a killed server leaves
// behind. Linux allows 4,096 of them. Line 7 of postmaster.pid, which a server that ended cleanly
// removes, has the segment's key and id.
func removeSegment(p Place) {
	data, _ := os.ReadFile(p.Path("data/postmaster.pid"))
	if lines := strings.Split(string(data), "\n"); len(lines) > 6 {
		if words := strings.Fields(lines[6]); len(words) == 2 {
			_ = exec.Command("ipcrm", "-m", words[1]).Run() // an error here does no harm
		}
	}
}

// initdb creates a new cluster.
func initdb(ctx context.Context, p Place) error {
	binary, err := sibling(p.Binary, "initdb")
	if err != nil {
		return err
	}
	args := []string{"-A", "trust", "-U", "postgres", "-E", "UTF8", "--locale", "C", "--no-sync", "--wal-segsize=1"}
	return fromTemplate(ctx, p, args, func() error { return p.Run(ctx, binary, append(args, "-D", p.Path("data"))...) })
}

// sibling returns the path of a program that is in the same directory as another program. The first
// argument is the path of the other program. If that path is a symbolic link, sibling follows the
// link first. The second argument is the file name of the wanted program.
func sibling(binary, name string) (string, error) {
	binary, err := filepath.EvalSymlinks(binary)
	return filepath.Join(filepath.Dir(binary), name), err
}

// postgresReady opens a session. An open port is not enough: PostgreSQL refuses sessions until it
// has recovered.
func postgresReady(ctx context.Context, p Place) error {
	conn, err := dial(ctx, p.Addr(), time.Second)
	if err != nil {
		return err
	}
	defer conn.Close()
	if _, err := conn.Write(startupMessage("postgres")); err != nil {
		return err
	}
	var kind [1]byte
	if _, err := io.ReadFull(conn, kind[:]); err != nil {
		return err
	}
	if kind[0] != 'R' { // R is the type of the message that reports a successful login
		return fmt.Errorf("it answers a start-up message with %q", kind)
	}
	_, err = conn.Write([]byte{'X', 0, 0, 0, 4}) // the message Terminate
	return err
}

// startupMessage returns the first message of PostgreSQL's protocol, version 3.0.
func startupMessage(user string) []byte {
	msg := binary.BigEndian.AppendUint32(make([]byte, 4), 3<<16)
	msg = append(msg, "user\x00"+user+"\x00database\x00postgres\x00\x00"...)
	binary.BigEndian.PutUint32(msg, uint32(len(msg)))
	return msg
}
