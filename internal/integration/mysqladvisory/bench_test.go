package mysqladvisory_test

import (
	"context"
	"database/sql"
	"slices"
	"testing"
	"time"

	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/stores/mysqladvisory"
)

// BenchmarkHold compares a hold with the bare statements on one connection, which it should not
// cost more than 1.3 times. The two take turns, so that the load of the machine counts for both
// alike.
func BenchmarkHold(b *testing.B) {
	dsn := server.SharedMariaDB(b).URL()
	run(b, dsn, "CREATE TABLE bare (id varbinary(64) PRIMARY KEY, n bigint NOT NULL) ENGINE=InnoDB")
	b.Run("without-fence", func(b *testing.B) { compare(b, mustOpenURL(b, dsn, "fences=no"), dsn, false) })
	b.Run("with-fence", func(b *testing.B) { compare(b, mustOpenURL(b, dsn, ""), dsn, true) })
}

func compare(b *testing.B, s *mysqladvisory.Store, dsn string, fence bool) {
	db, err := sql.Open("mysql", dsn)
	noError(b, err)
	defer db.Close()
	conn, err := db.Conn(b.Context())
	noError(b, err)
	var own, bare []time.Duration
	r := request("job")
	for b.Loop() {
		began := time.Now()
		if _, err := s.Acquire(context.Background(), r); err != nil {
			b.Fatal(err)
		}
		if _, err := s.Release(context.Background(), r.Name, r.Token, 0); err != nil {
			b.Fatal(err)
		}
		between := time.Now()
		pair(b, conn, fence)
		own, bare = append(own, between.Sub(began)), append(bare, time.Since(between))
	}
	slices.Sort(own)
	slices.Sort(bare)
	half := len(own) / 2
	b.ReportMetric(float64(own[half]), "own-p50-ns")
	b.ReportMetric(float64(bare[half]), "bare-p50-ns")
	b.ReportMetric(float64(own[half])/float64(bare[half]), "ratio")
}

// pair takes a lock and gives it back.
func pair(b *testing.B, conn *sql.Conn, fence bool) {
	ctx := context.Background()
	var ok int
	if err := conn.QueryRowContext(ctx, "SELECT GET_LOCK('bare', 0)").Scan(&ok); err != nil || ok != 1 {
		b.Fatal(ok, err)
	}
	if fence {
		if _, err := conn.ExecContext(ctx, "INSERT INTO bare VALUES ('bare', LAST_INSERT_ID(1)) ON DUPLICATE KEY UPDATE n = LAST_INSERT_ID(n + 1)"); err != nil {
			b.Fatal(err)
		}
	}
	if err := conn.QueryRowContext(ctx, "SELECT RELEASE_LOCK('bare')").Scan(&ok); err != nil || ok != 1 {
		b.Fatal(ok, err)
	}
}
