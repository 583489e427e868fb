package sqlsession_test

import (
	"database/sql"
	"strconv"
	"sync"
	"testing"

	"github.com/padlock-go/padlock/session/sqlsession"
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
