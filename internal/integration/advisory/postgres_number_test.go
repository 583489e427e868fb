package advisory_test

import (
	"bufio"
	"errors"
	"fmt"
	"os/exec"
	"testing"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/stores/pgadvisory"
)

// NumberLayout locks the number itself, as PHP with PDO does and as people do in psql.
func TestNumbers(t *testing.T) {
	t.Parallel()
	srv := postgres.shared(t)
	s := postgres.mustOpen(t, srv.URL(), "layout=number")
	u := postgres.url(srv.URL(), "")
	dsn := fmt.Sprintf("pgsql:host=%s;port=%s;dbname=%s", u.Hostname(), u.Port(), u.Path[1:])
	php := server.StartPHP(t, server.PHPNeeds{Extension: "pdo_pgsql"}, "testdata/number.php", dsn)
	psql := startPsql(t, srv.URL())
	for _, number := range []string{"7", "0", "-1", "9223372036854775807", "-9223372036854775808"} {
		r := request(number)
		take(t, s, r)
		php.Ask("no", "acquire "+number)
		psql("f", "SELECT pg_try_advisory_lock("+number+")")
		release(t, s, r)

		php.Ask("yes", "acquire "+number)
		if held := refused(t, s, request(number)); !held.Foreign() {
			t.Errorf("PHP has %s; the error says %+v", number, held.Holds)
		}
		php.Ask("yes", "release "+number)

		psql("t", "SELECT pg_try_advisory_lock_shared("+number+")")
		refused(t, s, request(number))
		read := reader(number)
		take(t, s, read)
		php.Ask("yes", "read "+number)
		php.Ask("yes", "unread "+number)
		psql("t", "SELECT pg_advisory_unlock_shared("+number+")")
		write := read
		write.Shared = false
		if _, err := s.(driver.Converter).Convert(t.Context(), write); err != nil {
			t.Errorf("promotion of the only reader of %s: %v", number, err)
		}
		php.Ask("no", "read "+number)
		release(t, s, read)
	}
}

// With NumberLayout a name is a number in its usual form. Every other name is refused, so that no
// program believes that it shares such a lock.
func TestNoNumber(t *testing.T) {
	t.Parallel()
	srv := postgres.shared(t)
	s := postgres.mustOpen(t, srv.URL(), "layout=number").(*pgadvisory.Store)
	for _, name := range []string{"job", "07", "+7", "-0", " 7", "7.0", "1,2", "0x7", "9223372036854775808", "-9223372036854775809"} {
		_, acquired := s.Acquire(t.Context(), request(name))
		_, waited := s.Wait(t.Context(), request(name), true)
		_, inspected := s.Inspect(t.Context(), name)
		_, located := s.Location(name)
		for what, err := range map[string]error{"Acquire": acquired, "Wait": waited, "Inspect": inspected, "Location": located, "LockTx": s.LockTx(t.Context(), nil, name)} {
			if !errors.Is(err, driver.ErrInvalid) {
				t.Errorf("%s of %q: %v", what, name, err)
			}
		}
	}
	if at, err := s.Location("-5"); at != "-5" || err != nil {
		t.Errorf("Location of -5: %s, %v", at, err)
	}
}

// startPsql starts psql. The function that it returns sends a query to psql and checks the answer.
func startPsql(t *testing.T, url string) func(want, query string) {
	t.Helper()
	cmd := exec.Command("psql", "--no-psqlrc", "--quiet", "--tuples-only", "--no-align", url)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close() // psql ends
		cmd.Wait()
	})
	answers := bufio.NewScanner(out)
	return func(want, query string) {
		t.Helper()
		fmt.Fprintln(in, query+";")
		if !answers.Scan() || answers.Text() != want {
			t.Errorf("%s: psql says %q, %v; want %q", query, answers.Text(), answers.Err(), want)
		}
	}
}
