package pgadvisory_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/stores/pgadvisory"
)

// BenchmarkHold compares a hold with its bare statements on one connection. A hold should cost at
// most 1.3 times as much as these statements. The two take turns, so that the load of the machine
// counts for both alike.
func BenchmarkHold(b *testing.B) {
	srv := server.Postgres(b, server.PostgresOptions{})
	b.Run("without-fence", func(b *testing.B) {
		s := mustOpen(b, srv.URL(), pgadvisory.NoFences())
		compare(b, s, newBare(b, srv.URL()), false)
	})
	b.Run("with-fence", func(b *testing.B) {
		s := mustOpen(b, srv.URL())
		compare(b, s, newBare(b, srv.URL()), true)
	})
}

func compare(b *testing.B, s *pgadvisory.Store, conn *pgx.Conn, fence bool) {
	var own, bare int64
	for b.Loop() {
		own += timeOf(func() {
			r := request("job")
			if _, err := s.Acquire(context.Background(), r); err != nil {
				b.Fatal(err)
			}
			if _, err := s.Release(context.Background(), r.Name, r.Token, 0); err != nil {
				b.Fatal(err)
			}
		})
		bare += timeOf(func() { pair(b, conn, fence) })
	}
	b.ReportMetric(float64(own)/float64(b.N), "own-ns/op")
	b.ReportMetric(float64(bare)/float64(b.N), "bare-ns/op")
	b.ReportMetric(float64(own)/float64(bare), "ratio")
}

// newBare connects, and makes a table for upserts.
func newBare(b *testing.B, url string) *pgx.Conn {
	conn := connect(b, url)
	if _, err := conn.Exec(b.Context(), "CREATE TABLE IF NOT EXISTS bare (key bigint PRIMARY KEY, n bigint)"); err != nil {
		b.Fatal(err)
	}
	return conn
}

// pair takes a lock and gives it back.
func pair(b *testing.B, conn *pgx.Conn, fence bool) {
	ctx := context.Background()
	var ok bool
	var n int64
	if err := conn.QueryRow(ctx, "SELECT pg_try_advisory_lock($1)", int64(1)).Scan(&ok); err != nil || !ok {
		b.Fatal(ok, err)
	}
	if fence {
		if err := conn.QueryRow(ctx, "INSERT INTO bare AS t VALUES ($1, 1) ON CONFLICT (key) DO UPDATE SET n = t.n + 1 RETURNING n", int64(1)).Scan(&n); err != nil {
			b.Fatal(err)
		}
	}
	if err := conn.QueryRow(ctx, "SELECT pg_advisory_unlock($1)", int64(1)).Scan(&ok); err != nil || !ok {
		b.Fatal(ok, err)
	}
}
