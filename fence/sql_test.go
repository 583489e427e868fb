package fence_test

import (
	"database/sql/driver"
	"errors"
	"fmt"
	"os/exec"
	"reflect"
	"strings"
	"testing"

	"github.com/padlock-go/padlock/fence"
	"github.com/padlock-go/padlock/internal/server"
)

// update builds the statement of the documentation.
func update(t *testing.T, p fence.Placeholders, f uint64) (string, []any) {
	t.Helper()
	q, err := fence.NewSQL(p, f)
	if err != nil {
		t.Fatal(err)
	}
	text := "UPDATE invoices SET state = " + q.Arg("paid") + ", " + q.Set("fence") +
		" WHERE id = " + q.Arg(7) + " AND " + q.Condition("fence")
	return text, q.Args()
}

func TestSQL(t *testing.T) {
	for style, want := range map[fence.Placeholders]string{
		fence.QuestionMarks: "UPDATE invoices SET state = ?, fence = ? WHERE id = ? AND fence <= ?",
		fence.Numbered:      "UPDATE invoices SET state = $1, fence = $2 WHERE id = $3 AND fence <= $4",
	} {
		text, args := update(t, style, 42)
		if text != want {
			t.Errorf("%s\nwant %s", text, want)
		}
		if !reflect.DeepEqual(args, []any{"paid", int64(42), 7, int64(42)}) {
			t.Errorf("arguments %#v", args)
		}
		for _, a := range args {
			if _, err := driver.DefaultParameterConverter.ConvertValue(a); err != nil {
				t.Error(err)
			}
		}
	}
}

// Without a valid fence, NewSQL returns an error.
func TestSQLWithoutAFence(t *testing.T) {
	for f, want := range map[uint64]error{0: fence.ErrMissing, 1 << 53: fence.ErrMalformed} {
		if q, err := fence.NewSQL(fence.QuestionMarks, f); q != nil || !errors.Is(err, want) {
			t.Errorf("fence %d: %v", f, err)
		}
	}
}

type result struct {
	n   int64
	err error
}

func (r result) LastInsertId() (int64, error) { return 0, nil }
func (r result) RowsAffected() (int64, error) { return r.n, r.err }

func TestApplied(t *testing.T) {
	errDriver := errors.New("of the driver")
	for _, test := range []struct {
		res  result
		err  error
		want error
	}{
		{result{n: 1}, nil, nil},
		{result{n: 3}, nil, nil},
		{result{n: 0}, nil, fence.ErrNotApplied},
		{result{}, errDriver, errDriver},
		{result{err: errDriver}, nil, errDriver},
	} {
		if err := fence.Applied(test.res, test.err); !errors.Is(err, test.want) || (err == nil) != (test.want == nil) {
			t.Errorf("%+v, %v: %v", test.res, test.err, err)
		}
	}
}

// In PostgreSQL, the statement does what its documentation says.
func TestSQLInPostgreSQL(t *testing.T) {
	t.Parallel()
	db := server.Postgres(t, server.PostgresOptions{})
	psql, err := exec.LookPath("psql")
	if err != nil {
		t.Fatalf("PostgreSQL is there without its psql: %v", err)
	}
	run := func(text string) string {
		out, err := exec.Command(psql, "-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", db.URL(), "-c", text).CombinedOutput()
		if err != nil {
			t.Fatalf("%s\n%s", text, out)
		}
		return strings.TrimSpace(string(out))
	}
	run("CREATE TABLE invoices (id int PRIMARY KEY, state text NOT NULL, fence bigint NOT NULL DEFAULT 0); INSERT INTO invoices VALUES (7, 'new')")
	for _, test := range []struct {
		fence uint64
		rows  string
	}{{1 << 52, "1"}, {1 << 52, "1"}, {1<<52 - 1, "0"}, {1<<53 - 1, "1"}, {1 << 52, "0"}} {
		text, args := update(t, fence.Numbered, test.fence)
		prepared := fmt.Sprintf("PREPARE p AS WITH done AS (%s RETURNING 1) SELECT count(*) FROM done; EXECUTE p('%v', %v, %v, %v)",
			text, args[0], args[1], args[2], args[3])
		if rows := run(prepared); rows != test.rows {
			t.Errorf("fence %d: %s rows, want %s", test.fence, rows, test.rows)
		}
	}
}
