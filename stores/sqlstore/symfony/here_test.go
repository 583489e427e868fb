package symfony

import (
	"context"
	"database/sql"
	sqldriver "database/sql/driver"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/storekit"
	"github.com/padlock-go/padlock/stores/sqlstore"
)

// A process that has used a name for long leaves it free for a moment. Otherwise programs that poll
// would never get it.
func TestGaps(t *testing.T) {
	synctest.Test(t, gaps) // a machine that stands still is as good as a gap
}

func gaps(t *testing.T) {
	over, cancel := context.WithCancel(t.Context())
	cancel()
	now := time.Now()
	for what, row := range map[string]struct {
		streak streak
		waits  bool
	}{
		"used for long, and free since now":       {streak{now.Add(-time.Minute), now}, true},
		"used for a moment":                       {streak{now, now}, false},
		"used for long, and free for 129 ms":      {streak{now.Add(-time.Minute), now.Add(-129 * time.Millisecond)}, true},
		"used for long, and free for 130 ms":      {streak{now.Add(-time.Minute), now.Add(-130 * time.Millisecond)}, false},
		"used for long, and free for long":        {streak{now.Add(-time.Minute), now.Add(-time.Second)}, false},
		"used for long, and free in a minute":     {streak{now.Add(-time.Hour), now.Add(time.Minute)}, true},
		"used for longer than allowed, by little": {streak{now.Add(-maxStreak - time.Millisecond), now.Add(time.Minute)}, true},
	} {
		h := localParties{streaks: map[string]streak{"name": row.streak}}
		if err := h.leaveGap(over, "name"); errors.Is(err, context.Canceled) != row.waits {
			t.Errorf("%s: %v", what, err)
		}
		if err := h.leaveGap(over, "other"); err != nil {
			t.Errorf("%s: another name: %v", what, err)
		}
	}
	h := localParties{}
	r := &driver.Request{}
	for range 3 { // hold after hold
		h.noteTaken("name", "token", r)
		h.holds["name"] = &hold{storekit.IDOf("", "token"), r.Holder, time.Now().Add(-maxStreak / 2)}
		h.noteReleased("name", "token")
		s := h.streaks["name"]
		h.streaks["name"] = streak{s.since.Add(-maxStreak / 2), s.given}
	}
	if err := h.leaveGap(over, "name"); err == nil {
		t.Errorf("after holds without pauses: %+v", h.streaks)
	}
}

// The texts in the table are those that PHP writes.
func TestTexts(t *testing.T) {
	const hash = "5e8c9902207afaeb7120430c585a445f21e92932081d64bc99f80e4925bcb002" // printf %s job | sha256sum
	if id := Symfony73.storedID(sqlstore.SQLite, "job"); len(id) != 64 || id != hashed("job") {
		t.Errorf("job is stored as %q", id)
	}
	if got := hashed("job"); got != hash {
		t.Errorf("the hash of job is %q", got)
	}
	for name, plain := range map[string]bool{
		"job": true, "é": true, strings.Repeat("x", 63): true, strings.Repeat("x", 64): false, strings.Repeat("é", 32): false, "\xff": false, "a\x00": false,
	} {
		if id := Symfony.storedID(sqlstore.PostgreSQL, name); (id == name) != plain || !plain && id != hashed(name) {
			t.Errorf("%q is stored as %q", name, id)
		}
	}
	own := "43FQs+ObupJsxu4LP+tYc0LiY8pYcWNa4MCsOn91SOc="
	if storedToken(own) != own {
		t.Errorf("a token of PHP's is stored as %q", storedToken(own))
	}
	seen := map[string]string{}
	for _, token := range []string{"short", "a b", "\x00", "é", "\x7f", strings.Repeat("x", 45), strings.Repeat("x", 128)} {
		text := storedToken(token)
		if len(text) > maxStored || seen[text] != "" || (text == token) != (token == "short") {
			t.Errorf("%q is stored as %q", token, text)
		}
		seen[text] = token
	}
}

// counted is a database that counts its statements and changes nothing.
type counted struct {
	sqldriver.Conn
	statements []string
}

func (d *counted) Connect(context.Context) (sqldriver.Conn, error) { return d, nil }
func (d *counted) Driver() sqldriver.Driver                        { return nil }
func (d *counted) Close() error                                    { return nil }

func (d *counted) ExecContext(_ context.Context, text string, _ []sqldriver.NamedValue) (sqldriver.Result, error) {
	d.statements = append(d.statements, text)
	return sqldriver.RowsAffected(0), nil
}

// A statement without a reply may write its row after the Release of its token. Close comes before
// the first of the pauses is over, and still removes the row once more.
func TestCloseRemovesALateRow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &counted{}
		db := sql.OpenDB(d)
		defer db.Close()
		s, err := Open(t.Context(), db, sqlstore.PostgreSQL, Symfony, Lazy())
		if err != nil {
			t.Fatal(err)
		}
		s.checked.Store(true)
		token := strings.Repeat("t", 44)
		s.here.noteDoubt(token, driver.ErrUncertain)
		if _, err := s.Release(t.Context(), "job", token, 0); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		before := len(d.statements)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if late := d.statements[before:]; len(late) != 1 || late[0] != s.sql.clear {
			t.Errorf("Close sends %q, want one more %q", late, s.sql.clear)
		}
	})
}
