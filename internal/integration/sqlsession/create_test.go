package sqlsession_test

import (
	"database/sql"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/padlock-go/padlock/web/session/sessionstore"
	"github.com/padlock-go/padlock/web/session/sqlsession"
)

// createdAtOnce: several processes that start at the same time can all create the table.
func (d database) createdAtOnce(t *testing.T) {
	pools := make([]*sql.DB, 8)
	for i := range pools {
		pools[i] = d.open(t)
		noError(t, pools[i].PingContext(t.Context()))
	}
	for round := range 10 {
		var wg sync.WaitGroup
		for _, db := range pools {
			s, err := sqlsession.New(db, d.dialect, sqlsession.Table("at_once_"+strconv.Itoa(round)))
			noError(t, err)
			wg.Go(func() {
				if err := s.CreateTable(t.Context()); err != nil {
					t.Errorf("round %d: %v", round, err)
				}
			})
		}
		wg.Wait()
	}
}

// othersTable: a table of another program keeps its rows and gets no index, whatever is called.
func (d database) othersTable(t *testing.T) {
	db := d.open(t)
	for i, columns := range []string{"id, expires, data", "session_id, expires, data", "id, payload, last_activity"} {
		table := "theirs" + strconv.Itoa(i)
		names := strings.Split(columns, ", ")
		exec(t, db, "CREATE TABLE "+table+" ("+names[0]+" varchar(50) PRIMARY KEY, "+names[1]+" bigint, "+names[2]+" bigint)")
		exec(t, db, "INSERT INTO "+table+" VALUES ('k', 1795760000, 7)")
		s, err := sqlsession.New(db, d.dialect, sqlsession.Table(table))
		noError(t, err)
		created := s.CreateTable(t.Context())
		_, swept := s.Sweep(t.Context())
		_, committed := s.Commit(t.Context(), "k", sessionstore.Change{Create: true, TTL: time.Hour})
		_, deleted := s.Delete(t.Context(), "k")
		for verb, err := range map[string]error{"CreateTable": created, "Sweep": swept, "Commit": committed, "Delete": deleted, "Touch": s.Touch(t.Context(), "k", time.Hour)} {
			if err == nil {
				t.Errorf("%s of the table (%s) succeeds", verb, columns)
			}
		}
		var id string
		var one, two int64
		noError(t, db.QueryRowContext(t.Context(), "SELECT * FROM "+table).Scan(&id, &one, &two))
		if id != "k" || one != 1795760000 || two != 7 {
			t.Errorf("the row became %q, %d, %d", id, one, two)
		}
	}
}
