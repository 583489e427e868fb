package sqlsession_test

import (
	"context"
	"database/sql"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/stores/memstore"
	"github.com/padlock-go/padlock/web/session"
	"github.com/padlock-go/padlock/web/session/phpsession"
	"github.com/padlock-go/padlock/web/session/sessionstore"
	"github.com/padlock-go/padlock/web/session/sessiontest"
	"github.com/padlock-go/padlock/web/session/sqlsession"
)

func (d database) blobs(t *testing.T) {
	sessiontest.RunBlobs(t, sessiontest.BlobHarness{Patience: 2 * time.Minute, Expire: 400 * time.Millisecond, Open: func() (sessionstore.BlobStore, error) {
		return d.store(t, d.open(t), sqlsession.Table("single")).Blobs(), nil
	}})
}

// batches makes more rows expire than one statement deletes.
func (d database) batches(t *testing.T) {
	s := d.store(t, d.open(t), sqlsession.Table("batches"))
	db := d.open(t)
	const expired, living = 2300, 20
	tx, err := db.BeginTx(t.Context(), nil)
	noError(t, err)
	for i := range expired + living {
		expires := "1"
		if i >= expired {
			expires = "0"
		}
		_, err := tx.ExecContext(t.Context(), fmt.Sprintf("INSERT INTO batches (id, version, expires, data) VALUES ('k%d', 1, %s, '')", i, expires))
		noError(t, err)
	}
	noError(t, tx.Commit())
	if n, err := s.Sweep(t.Context()); n != expired || err != nil {
		t.Errorf("swept %d, %v; want %d", n, err, expired)
	}
	var left int
	noError(t, db.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM batches").Scan(&left))
	if left != living {
		t.Errorf("%d rows are left, want %d", left, living)
	}
}

// phpEmpty: PHP's session without keys has no bytes.
func (d database) phpEmpty(t *testing.T) {
	locker := padlock.New(memstore.New())
	t.Cleanup(func() { locker.Close(context.Background()) })
	m, err := phpsession.New(d.store(t, d.open(t), sqlsession.Table("php")).Blobs(), locker, phpsession.Config{},
		session.MaxWait(time.Minute), session.Cookie{Insecure: true, Name: phpsession.CookieName})
	noError(t, err)
	var cookie *http.Cookie
	for i, f := range []func(s *session.Session) error{
		func(s *session.Session) error { return s.Put("k", 1) },
		func(s *session.Session) error { return s.Delete("k") },
		func(s *session.Session) error { return s.Put("k", 2) },
	} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		if cookie != nil {
			r.AddCookie(cookie)
		}
		w := httptest.NewRecorder()
		m.Middleware(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			noError(t, f(session.From(r.Context())))
		})).ServeHTTP(w, r)
		if w.Code != http.StatusOK {
			t.Fatalf("request %d: %d %s", i, w.Code, w.Body)
		}
		if set := w.Result().Cookies(); len(set) > 0 {
			cookie = set[0]
		}
	}
}

// recorder notes the statements that are sent.
type recorder struct {
	mu   sync.Mutex
	sent []string
}

func (r *recorder) TraceQueryStart(ctx context.Context, _ *pgx.Conn, q pgx.TraceQueryStartData) context.Context {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sent = append(r.sent, q.SQL)
	return ctx
}

func (r *recorder) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// TestSweepUsesTheIndex asks PostgreSQL how it runs the statement of Sweep among rows that have not
// expired.
func TestSweepUsesTheIndex(t *testing.T) {
	t.Parallel()
	o, err := pgx.ParseConfig(server.Postgres(t, server.PostgresOptions{}).URL())
	noError(t, err)
	sent := &recorder{}
	o.Tracer = sent
	db := stdlib.OpenDB(*o)
	t.Cleanup(func() { db.Close() })
	s := database{dialect: sqlsession.Postgres}.store(t, db)
	exec(t, db, `INSERT INTO padlock_sessions (id, version, expires, data)
		SELECT 'k' || n, 1, CASE WHEN n % 1000 = 0 THEN 1 ELSE 4102444800000 END, '' FROM generate_series(1, 50000) n`)
	exec(t, db, "ANALYZE padlock_sessions")
	before := len(sent.sent)
	if n, err := s.Sweep(t.Context()); n != 50 || err != nil || len(sent.sent) != before+1 {
		t.Fatalf("swept %d, %v, with %q", n, err, sent.sent[before:])
	}
	rows, err := db.QueryContext(t.Context(), "EXPLAIN "+sent.sent[before])
	noError(t, err)
	defer rows.Close()
	var plan strings.Builder
	for rows.Next() {
		var line string
		noError(t, rows.Scan(&line))
		plan.WriteString(line + "\n")
	}
	noError(t, rows.Err())
	if text := plan.String(); strings.Contains(text, "Seq Scan") || !strings.Contains(text, "padlock_sessions_expires") {
		t.Errorf("the plan is\n%s", text)
	}
}

func exec(t testing.TB, db *sql.DB, q string) {
	t.Helper()
	_, err := db.ExecContext(t.Context(), q)
	noError(t, err)
}
