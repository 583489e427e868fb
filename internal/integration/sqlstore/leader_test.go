//go:build unix

package sqlstore_test

import (
	"bufio"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/election"
	"github.com/padlock-go/padlock/internal/safety"
	"github.com/padlock-go/padlock/stores/sqlstore"
)

// leaderEnv makes the test binary a leader that stops once: driver, database, engine, isolation level
// and stage.
const leaderEnv = "PADLOCK_TEST_LEADER"

// The stages of a leader's transaction at which its process is paused, and whether CheckTx has already
// passed then.
var leaderStages = []struct {
	name    string
	checked bool
}{{"begin", false}, {"check", false}, {"old snapshot", false}, {"write", true}, {"second write", true}, {"commit", true}}

// TestPausedLeader: the process of a leader is stopped in its transaction, and its lease ends. Before
// CheckTx another leader takes over and writes, and the database refuses the late one. After CheckTx
// nobody else leads until the transaction has ended, so it is not late.
func TestPausedLeader(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"postgres", "mariadb"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := databases[name](t)
			for _, level := range meetings(d.engine, nil).Levels {
				t.Run(level.String(), func(t *testing.T) { pausedLeaders(t, d, level) })
			}
		})
	}
}

func pausedLeaders(t *testing.T, d database, level sql.IsolationLevel) {
	for _, stage := range leaderStages {
		t.Run(stage.name, func(t *testing.T) {
			p := d.party(t)
			name := fmt.Sprint("scheduler ", level, stage.name)
			for _, table := range []string{"written (job varchar(80), fence bigint)", "settings (a int)"} {
				_, err := p.db.Exec("CREATE TABLE IF NOT EXISTS " + table)
				noError(t, err)
			}
			old := d.startLeader(t, level, stage.name, name)
			old.says("at " + stage.name)
			noError(t, old.process.Signal(syscall.SIGSTOP))
			d.end(t, name) // its lease is over
			took := d.takesOver(t, p, name)
			if took == stage.checked {
				t.Errorf("%sanother leader while CheckTx lasts: %v, want %v", safety.Mark, took, !stage.checked)
			}
			noError(t, old.process.Signal(syscall.SIGCONT))
			_, err := old.in.Write([]byte("go on\n"))
			noError(t, err)
			if stage.checked {
				old.says("committed")
				d.takesOver(t, p, name)
			} else {
				old.says("refused")
			}
			p.inOrder(t, name, stage.checked)
		})
	}
}

// takesOver reports whether the party becomes the leader. If so, it writes.
func (d database) takesOver(t *testing.T, p *party, name string) bool {
	t.Helper()
	lock, err := p.locker.TryAcquire(t.Context(), name)
	if errors.Is(err, padlock.ErrHeld) {
		return false
	}
	noError(t, err)
	ctx, cancel := lock.Join(t.Context())
	defer cancel()
	tx := p.begin(t, sql.LevelDefault)
	noError(t, p.store.CheckTx(ctx, tx, padlock.GrantFrom(ctx)))
	noError(t, d.write(tx, padlock.GrantFrom(ctx)))
	noError(t, tx.Commit())
	noError(t, lock.Release())
	return true
}

// write notes that a leader wrote.
func (d database) write(tx *sql.Tx, g padlock.Grant) error {
	statement := "INSERT INTO written VALUES ($1, $2)"
	if d.engine == sqlstore.MySQL {
		statement = "INSERT INTO written VALUES (?, ?)"
	}
	_, err := tx.Exec(statement, g.Name(), int64(g.Fence()))
	return err
}

// inOrder checks what was written: by both leaders, the old one first and twice, or by the new one.
func (p *party) inOrder(t *testing.T, name string, both bool) {
	t.Helper()
	rows, err := p.db.Query("SELECT fence, count(*) FROM written WHERE job = '" + name + "' GROUP BY fence ORDER BY fence")
	noError(t, err)
	defer rows.Close()
	var counts []int
	for rows.Next() {
		var fence, n int
		noError(t, rows.Scan(&fence, &n))
		counts = append(counts, n)
	}
	noError(t, rows.Err())
	if want := map[bool]string{true: "[2 1]", false: "[1]"}[both]; fmt.Sprint(counts) != want {
		t.Errorf("%srows of the old and the new leader: %v, want %v", safety.Mark, counts, want)
	}
}

// A leader is a process that leads, and stops at a stage of its transaction until it is told to go on.
type leader struct {
	t       *testing.T
	process *os.Process
	in      interface{ Write([]byte) (int, error) }
	out     *bufio.Reader
}

func (d database) startLeader(t *testing.T, level sql.IsolationLevel, stage, name string) *leader {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), leaderEnv+"="+strings.Join([]string{d.driver, d.dsn, d.engine.String(), strconv.Itoa(int(level)), stage, name}, "\n"))
	in, err := cmd.StdinPipe()
	noError(t, err)
	out, err := cmd.StdoutPipe()
	noError(t, err)
	noError(t, cmd.Start())
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	return &leader{t, cmd.Process, in, bufio.NewReader(out)}
}

func (l *leader) says(want string) {
	l.t.Helper()
	if line, err := l.out.ReadString('\n'); strings.TrimSpace(line) != want {
		l.t.Fatalf("the leader says %q, %v; want %q", line, err, want)
	}
}

// leaderMain is the process of startLeader. It works as a leader that ignores the end of its context, as
// one does that is paused.
func leaderMain(args []string) {
	level, _ := strconv.Atoi(args[3])
	d := database{driver: args[0], dsn: args[1], engine: sqlstore.PostgreSQL}
	if args[2] == sqlstore.MySQL.String() {
		d.engine = sqlstore.MySQL
	}
	db, err := d.pool()
	var store *sqlstore.Store
	if err == nil {
		store, err = sqlstore.Open(context.Background(), db, d.engine)
	}
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	stopAt := func(stage string) {
		if stage == args[4] {
			fmt.Println("at", stage)
			os.Stdin.Read(make([]byte, 10))
		}
	}
	election.New(padlock.New(store), args[5]).Run(context.Background(), func(ctx context.Context) error {
		switch err := d.leads(db, store, sql.IsolationLevel(level), padlock.GrantFrom(ctx), stopAt); {
		case err == nil:
			fmt.Println("committed")
		case errors.Is(err, driver.ErrLost), errors.Is(err, driver.ErrExpired), errors.Is(err, sqlstore.ErrTx):
			fmt.Println("refused")
		default:
			fmt.Println(err)
		}
		return election.ErrStop
	})
	select {} // the test ends it
}

// leads is one transaction of a leader.
func (d database) leads(db *sql.DB, store *sqlstore.Store, level sql.IsolationLevel, g padlock.Grant, stopAt func(string)) error {
	ctx := context.Background()
	stopAt("begin")
	tx, err := db.BeginTx(ctx, &sql.TxOptions{Isolation: level})
	if err != nil {
		return err
	}
	defer tx.Rollback()
	stopAt("check")
	var before int
	if err := tx.QueryRow("SELECT count(*) FROM settings").Scan(&before); err != nil {
		return err
	}
	stopAt("old snapshot")
	if err := store.CheckTx(ctx, tx, g); err != nil {
		return err
	}
	stopAt("write")
	if err := d.write(tx, g); err != nil {
		return err
	}
	stopAt("second write")
	if err := d.write(tx, g); err != nil {
		return err
	}
	stopAt("commit")
	return tx.Commit()
}

// TestKeptGrant: CheckTx refuses a grant that outlives its function for the reason that this process
// knows, which is true even if the database has not heard of the release yet.
func TestKeptGrant(t *testing.T) {
	t.Parallel()
	p := databases["sqlite"](t).party(t)
	var kept padlock.Grant
	noError(t, p.locker.Do(t.Context(), "job", func(ctx context.Context) error {
		kept = padlock.GrantFrom(ctx)
		tx := p.begin(t, sql.LevelDefault)
		defer tx.Rollback()
		return p.store.CheckTx(ctx, tx, kept)
	}))
	tx := p.begin(t, sql.LevelDefault)
	defer tx.Rollback()
	wantError(t, "a grant that was kept", p.store.CheckTx(t.Context(), tx, kept), padlock.ErrReleased)
	wantError(t, "the grant of no lock", p.store.CheckTx(t.Context(), tx, padlock.GrantFrom(t.Context())), padlock.ErrInvalid)
}
