package pages

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/driver/fast"
	"github.com/padlock-go/padlock/election"
	"github.com/padlock-go/padlock/fence"
	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/newest"
	"github.com/padlock-go/padlock/open/all"
	"github.com/padlock-go/padlock/stores/memstore"
)

// The functions of this file are on the pages docs/ask.md, docs/election.md and
// docs/leader-database.md. The tests call them on five kinds of stores.

func rebuildAll(ctx context.Context, locker *padlock.Locker, parts []string) error {
	return locker.Do(ctx, "rebuild", func(ctx context.Context) error {
		for _, part := range parts {
			select {
			case <-padlock.Asked(ctx):
				q, _ := padlock.QuestionFrom(ctx)
				log.Printf("%s asks for the lock: %s", q.By.Host, q.Reason)
				return nil // the rest comes next time
			default:
			}
			if err := rebuild(ctx, part); err != nil {
				return err
			}
		}
		return nil
	})
}

func deployNewest(ctx context.Context, locker *padlock.Locker, version string) error {
	err := newest.Do(ctx, locker, "deploy-web", func(ctx context.Context) error {
		return deploy(ctx, version)
	})
	if errors.Is(err, newest.ErrSuperseded) {
		return nil // a newer version is deployed
	}
	return err
}

func lead(ctx context.Context, locker *padlock.Locker, rank int, leastTerm time.Duration, work func(context.Context) error) error {
	return election.New(locker, "scheduler", election.Rank(rank, leastTerm)).Run(ctx, work)
}

func writeAsLeader(ctx context.Context, db *sql.DB, text string) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	q, err := fence.NewSQL(fence.QuestionMarks, padlock.GrantFrom(ctx).Fence()) // fence.Numbered for PostgreSQL
	if err != nil {
		return err
	}
	update := "UPDATE leader SET " + q.Set("fence") + " WHERE " + q.Condition("fence")
	if err := fence.Applied(tx.ExecContext(ctx, update, q.Args()...)); err != nil {
		return err // fence.ErrNotApplied: a later leader has written
	}
	if _, err := tx.ExecContext(ctx, "INSERT INTO lines (text) VALUES (?)", text); err != nil {
		return err
	}
	return tx.Commit()
}

func rebuild(ctx context.Context, part string) error   { return workOf(ctx).do(ctx, part) }
func deploy(ctx context.Context, version string) error { return workOf(ctx).do(ctx, version) }

// work is the work of the functions, which a test has put into their context.
type work struct {
	began chan string
	ended func(ctx context.Context) <-chan struct{} // when a part of the work is done
}

type workKey struct{}

func workOf(ctx context.Context) *work { return ctx.Value(workKey{}).(*work) }

func (w *work) in(ctx context.Context) context.Context { return context.WithValue(ctx, workKey{}, w) }

func (w *work) do(ctx context.Context, what string) error {
	w.began <- what
	select {
	case <-w.ended(ctx):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// A site opens a store as another process would.
type site func(t *testing.T) *padlock.Locker

// places are the stores, with the URL of each that several processes can share.
func places(t *testing.T) (everywhere map[string]site, urls map[string]string, binary string) {
	t.Helper()
	binary, err := server.BuildPadlock(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	urls = map[string]string{
		"file": "file://" + t.TempDir(), "Redis": redisURL(t), "PostgreSQL": server.Postgres(t, server.PostgresOptions{}).URL(),
		"HTTP": overHTTP(t, binary, redisURL(t)),
	}
	memory := memstore.New()
	everywhere = map[string]site{"memory": func(t *testing.T) *padlock.Locker { return newLocker(t, memory.Open()) }}
	for name, url := range urls {
		everywhere[name] = func(t *testing.T) *padlock.Locker { return newLocker(t, opened(t, url)) }
	}
	return everywhere, urls, binary
}

// overHTTP starts a server for which clients have all rights, and returns the URL of a client.
func overHTTP(t *testing.T, binary, store string) string {
	t.Helper()
	const secret = "pages-0123456789abcdef0123456789abcdef"
	token, tokens := filepath.Join(t.TempDir(), "token"), filepath.Join(t.TempDir(), "tokens")
	if err := errors.Join(os.WriteFile(token, []byte(secret), 0o600), os.WriteFile(tokens, []byte("ann "+secret+" read,acquire,ask,break\n"), 0o600)); err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("padlock+%s/?token-file=%s", server.Padlock(t, binary, store, "--token-file", tokens, "--allow-break").URL(), token)
}

func opened(t *testing.T, url string) driver.Store {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	s, err := all.Store(ctx, url)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func newLocker(t *testing.T, s driver.Store) *padlock.Locker {
	t.Helper()
	l := padlock.New(s)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := l.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	return l
}

// TestAskPrograms calls the functions on each store, and runs the commands of docs/ask.md.
func TestAskPrograms(t *testing.T) {
	t.Parallel()
	everywhere, urls, binary := places(t)
	for name, at := range everywhere {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			t.Run("ask", at.ask)
			t.Run("newest", at.newest)
			t.Run("ranks", at.ranks)
			t.Run("one leader, one database", at.oneLeader)
			if urls[name] != "" {
				t.Run("commands", func(t *testing.T) { commands(t, binary, urls[name]) })
			}
		})
	}
}

func (at site) ask(t *testing.T) {
	w := &work{make(chan string, 3), padlock.Asked}
	holder, asker := at(t), at(t)
	ended := make(chan error, 1)
	go func() { ended <- rebuildAll(w.in(t.Context()), holder, []string{"a", "b", "c"}) }()
	<-w.began
	if _, err := asker.Ask(t.Context(), "rebuild", "deploy of v2"); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil || len(w.began) > 0 {
		t.Errorf("%v; %d parts begin after the question", err, len(w.began))
	}
}

func (at site) newest(t *testing.T) {
	over := make(chan struct{})
	w := &work{make(chan string, 3), func(context.Context) <-chan struct{} { return over }}
	ended := make(chan error, 3)
	start := func(version string) {
		l := at(t)
		go func() { ended <- deployNewest(w.in(t.Context()), l, version) }()
	}
	start("v1")
	if v := <-w.began; v != "v1" {
		t.Fatal(v)
	}
	start("v2")
	awaitNewest(t, at(t), 1)
	start("v3")
	awaitNewest(t, at(t), 2)
	close(over)
	for range 3 {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	if v := <-w.began; v != "v3" || len(w.began) > 0 {
		t.Errorf("%s runs after v1, and %d more", v, len(w.began))
	}
}

// awaitNewest returns when n callers of package newest wait.
func awaitNewest(t *testing.T, l *padlock.Locker, n int) {
	t.Helper()
	server.Eventually(t, func() error {
		s, err := l.Inspect(t.Context(), fast.NewestName("deploy-web", "waiting"))
		if err == nil && len(s.Holds) != n {
			err = fmt.Errorf("%d callers wait", len(s.Holds))
		}
		return err
	})
}

// ranks has a leader of rank 1, who resigns when a candidate of rank 2 asks it.
func (at site) ranks(t *testing.T) {
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	led := make(chan int, 9)
	ended := make(chan error, 2)
	campaign := func(rank int) {
		l := at(t)
		go func() {
			ended <- lead(ctx, l, rank, 0, func(ctx context.Context) error {
				led <- rank
				<-ctx.Done()
				return ctx.Err()
			})
		}()
	}
	campaign(1)
	if rank := <-led; rank != 1 {
		t.Error("rank", rank)
	}
	campaign(2)
	select {
	case rank := <-led:
		if rank != 2 {
			t.Errorf("rank %d leads after rank 1", rank)
		}
	case <-ctx.Done():
		t.Error("rank 1 leads on")
	}
	stop()
	for range 2 {
		<-ended // with the error of ctx
	}
}

// oneLeader has a leader that writes late, when the next one has written.
func (at site) oneLeader(t *testing.T) {
	db, err := sql.Open("sqlite", filepath.Join(t.TempDir(), "own.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.Exec("CREATE TABLE lines (text TEXT); CREATE TABLE leader (fence INTEGER); INSERT INTO leader VALUES (0)"); err != nil {
		t.Fatal(err)
	}
	write := func(text string) (leader context.Context) {
		ctx, stop := context.WithCancel(t.Context())
		err := election.New(at(t), "writer").Run(ctx, func(ctx context.Context) error {
			defer stop()
			leader = context.WithoutCancel(ctx)
			return writeAsLeader(ctx, db, text)
		})
		if err != nil && !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		return leader
	}
	first := write("first")
	write("second")
	if err := writeAsLeader(first, db, "late"); !errors.Is(err, fence.ErrNotApplied) {
		t.Errorf("a late write: %v", err)
	}
	var lines string
	if err := db.QueryRow("SELECT group_concat(text) FROM lines").Scan(&lines); err != nil || lines != "first,second" {
		t.Errorf("%q, %v", lines, err)
	}
}

// commands runs the commands of docs/ask.md. Each of them is on the page.
func commands(t *testing.T, binary, url string) {
	page, err := os.ReadFile(filepath.Join(root, "docs/ask.md"))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	script := func(signal, name string) string {
		return "#!/bin/sh\ntrap 'exit 0' " + signal + "\necho " + name + " >>" + name + "\nwhile ! [ -e stop ]; do sleep 0.1; done\n"
	}
	if err := errors.Join(server.WriteProgram(filepath.Join(dir, "rebuild.sh"), []byte(script("USR1", "rebuild"))),
		server.WriteProgram(filepath.Join(dir, "deploy.sh"), []byte(script("TERM", "deploy")))); err != nil {
		t.Fatal(err)
	}
	command := func(line string) *exec.Cmd {
		if !strings.Contains(string(page), line+"\n") {
			t.Errorf("docs/ask.md does not have %q", line)
		}
		cmd := exec.CommandContext(t.Context(), "sh", "-c", "exec "+line)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "PADLOCK_STORE="+url, "PATH="+filepath.Dir(binary)+":"+os.Getenv("PATH"))
		return cmd
	}
	start := func(line, name string, runs int) func() error {
		cmd := command(line)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		server.Eventually(t, func() error {
			text, err := os.ReadFile(filepath.Join(dir, name))
			if err == nil && strings.Count(string(text), name) < runs {
				err = errors.New("it does not run yet")
			}
			return err
		})
		return cmd.Wait
	}
	ended := start("padlock run --on-ask USR1 rebuild -- ./rebuild.sh", "rebuild", 1)
	if out, err := command("padlock ask --wait 60 rebuild").CombinedOutput(); err != nil || !strings.Contains(string(out), "rebuild: the holder has left, after ") {
		t.Errorf("%v; padlock ask says %s", err, out)
	}
	if err := ended(); err != nil {
		t.Errorf("the holder that was asked: %v", err)
	}
	older := start("padlock run --newest --on-ask TERM deploy-web -- ./deploy.sh", "deploy", 1)
	newer := start("padlock run --newest --on-ask TERM deploy-web -- ./deploy.sh", "deploy", 2)
	if err := errors.Join(older(), os.WriteFile(filepath.Join(dir, "stop"), nil, 0o600), newer()); err != nil {
		t.Error(err)
	}
}

// TestLeaderDatabaseProgram starts the program of docs/leader-database.md twice. When the first one
// ends, the second one leads and writes.
func TestLeaderDatabaseProgram(t *testing.T) {
	t.Parallel()
	srv := server.Postgres(t, server.PostgresOptions{})
	db := openPostgres(t, srv)
	first := buildFile(t, "examples/leader/main.go")
	second := program(first.Dir)
	for i, cmd := range []*exec.Cmd{first, second} {
		cmd.Env = append(os.Environ(), "DATABASE_URL="+srv.URL())
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		defer cmd.Process.Kill()
		if i == 1 {
			if err := errors.Join(first.Process.Signal(syscall.SIGTERM), first.Wait()); err != nil {
				t.Errorf("the first program ends with %v", err)
			}
		}
		server.Eventually(t, func() error {
			var n int
			err := db.QueryRow("SELECT count(*) FROM ticks WHERE leader = $1", cmd.Process.Pid).Scan(&n)
			if err == nil && n == 0 {
				err = fmt.Errorf("program %d has written nothing", i+1)
			}
			return err
		})
	}
	if err := errors.Join(second.Process.Signal(syscall.SIGTERM), second.Wait()); err != nil {
		t.Errorf("the second program ends with %v", err)
	}
}
