package sqlstore_test

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/open/all"
)

// startPHP starts a process that takes locks with Symfony's PostgreSqlStore, as the
// tests do.
func startPHP(t *testing.T, dsn string) *server.PHP {
	t.Helper()
	needs := server.PHPNeeds{Extension: "pdo_pgsql", Symfony: []string{"Lock"}}
	return server.StartPHP(t, needs, "../advisory/testdata/postgres.php", dsn)
}

// A symfony+ URL of PostgreSQL's advisory locks means the locks of PHP's PostgreSqlStore. PHP and
// padlock exclude each other in both directions, in a Go program and through the command.
func TestAdvisoryLocksOfPHP(t *testing.T) {
	server.Thorough(t)
	t.Parallel()
	srv := server.Postgres(t, server.PostgresOptions{})
	host, port, err := net.SplitHostPort(srv.Addr())
	noError(t, err)
	p := startPHP(t, fmt.Sprintf("pgsql:host=%s;port=%s;dbname=postgres", host, port))
	command := buildCommand(t)
	for i, dsn := range []string{
		fmt.Sprintf("pgsql+advisory:host=%s;port=%s;dbname=postgres;user=postgres", host, port),
		"postgresql+advisory://postgres@" + srv.Addr() + "/postgres?sslmode=disable",
		"postgres+advisory://postgres@" + srv.Addr() + "/postgres?serverVersion=15&charset=utf8",
	} {
		s, err := all.Store(t.Context(), "symfony+"+dsn)
		if err != nil {
			t.Fatalf("%s: %v", dsn, err)
		}
		defer s.Close()
		name := fmt.Sprint("nightly report ", i)
		padlock := func(store string, args ...string) (code int, text string) {
			cmd := exec.Command(command, append([]string{args[0], "--store", store}, args[1:]...)...)
			out, _ := cmd.CombinedOutput() // the exit status has the result
			return cmd.ProcessState.ExitCode(), string(out)
		}

		noError(t, take(t, s, name, "token"))
		p.Ask("no", "acquire "+name)
		p.Ask("no", "read "+name)
		out, err := s.Release(t.Context(), name, "token", 0)
		if err != nil || out != driver.OutcomeReleased {
			t.Errorf("%s: Release: %v, %v", dsn, out, err)
		}

		p.Ask("yes", "acquire "+name)
		if err := take(t, s, name, "token"); !errors.Is(err, driver.ErrHeld) {
			t.Errorf("%s: PHP has the lock; Acquire: %v", dsn, err)
		}
		if code, text := padlock("symfony+"+dsn, "run", "-n", name, "--", "true"); code != 75 {
			t.Errorf("%s: PHP has the lock; padlock run ends with %d: %s", dsn, code, text)
		}
		if code, text := padlock("symfony+"+dsn, "status", name); code != 75 {
			t.Errorf("%s: PHP has the lock; padlock status ends with %d: %s", dsn, code, text)
		}
		p.Ask("yes", "release "+name)
		if code, text := padlock("symfony+"+dsn, "run", "-n", name, "--", "true"); code != 0 {
			t.Errorf("%s: the lock is free; padlock run ends with %d: %s", dsn, code, text)
		}
		whileRunning(t, command, "symfony+"+dsn, name, func() { p.Ask("no", "acquire "+name) })
		p.Ask("yes", "acquire "+name)
		p.Ask("yes", "release "+name)
	}
}

func buildCommand(t *testing.T) string {
	t.Helper()
	binary, err := server.BuildPadlock(t.TempDir())
	noError(t, err)
	return binary
}

// whileRunning calls f while padlock run holds the lock.
func whileRunning(t *testing.T, command, store, name string, f func()) {
	t.Helper()
	cmd := exec.Command(command, "run", "--store", store, "-n", name, "--", "sh", "-c", "echo locked; read line")
	in, err := cmd.StdinPipe()
	noError(t, err)
	out, err := cmd.StdoutPipe()
	noError(t, err)
	cmd.Stderr = os.Stderr
	noError(t, cmd.Start())
	lines := bufio.NewScanner(out)
	if lines.Scan(); !strings.Contains(lines.Text(), "locked") {
		t.Errorf("padlock run says %q", lines.Text())
	}
	f()
	in.Close()
	if err := cmd.Wait(); err != nil && cmd.ProcessState.ExitCode() != 1 { // read ends with 1 at the end of its input
		t.Errorf("padlock run: %v", err)
	}
}
