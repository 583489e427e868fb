package peers

import (
	"context"
	"errors"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/open"
	"github.com/padlock-go/padlock/open/all"
)

// A place is a database that PHP and padlock share.
type place struct {
	pdo, doctrine string // PHP's DSNs
	ours          string // padlock's URL
}

// TestLockKeys has padlock and PHP share Symfony's table lock_keys, on each engine, with PDO and
// with Doctrine DBAL. Debian's Symfony is 5.4, so the layout is symfony73.
func TestLockKeys(t *testing.T) {
	t.Parallel()
	needsDatabases(t)
	for engine, start := range map[string]func() place{
		"postgres": func() place {
			at := server.Postgres(t, server.PostgresOptions{}).Addr()
			return place{"pgsql:" + parts(at) + ";dbname=postgres", "pgsql://postgres@" + at + "/postgres", "postgres://postgres@" + at + "/postgres?"}
		},
		"mariadb": func() place {
			at := server.MariaDB(t).Addr()
			return place{"mysql:" + parts(at) + ";dbname=mysql", "mysql://root@" + at + "/mysql", "mysql://root@" + at + "/mysql?"}
		},
		"sqlite": func() place {
			path := filepath.ToSlash(filepath.Join(t.TempDir(), "shop.db"))
			return place{"sqlite:" + path, "sqlite:///" + path, "sqlite://" + path + "?_pragma=busy_timeout(10000)&"}
		},
	} {
		p := start()
		for library, dsn := range map[string]string{"pdo": p.pdo, "doctrine": p.doctrine} {
			for what, f := range sharedTable {
				table := strings.ReplaceAll("t_"+library+"_"+what, " ", "_")
				t.Run(engine+"/"+library+"/"+what, func(t *testing.T) {
					t.Parallel()
					f(t, &pair{t, p, dsn, table})
				})
			}
		}
	}
}

// needsDatabases skips the test without PHP's modules for databases, or fails it in CI.
func needsDatabases(t *testing.T) {
	t.Helper()
	err := exec.Command(phpCommand(t), "-r", "exit(array_diff(['pdo_pgsql', 'pdo_mysql', 'pdo_sqlite'], get_loaded_extensions()) ? 1 : 0);").Run()
	if err == nil {
		_, err = os.Stat("/usr/share/php/Doctrine/DBAL/autoload.php")
	}
	if err != nil && os.Getenv("CI") == "true" {
		t.Fatalf("php-pgsql, php-mysql, php-sqlite3 or php-doctrine-dbal is missing, and under CI it may not be: %v", err)
	}
	if err != nil {
		t.Skipf("php-pgsql, php-mysql, php-sqlite3 or php-doctrine-dbal is missing: %v", err)
	}
}

func parts(addr string) string {
	u := url.URL{Host: addr}
	return "host=" + u.Hostname() + ";port=" + u.Port()
}

// A pair is PHP and padlock on one table.
type pair struct {
	t      *testing.T
	place  place
	dsn    string
	shared string // the table
}

func (p *pair) php() *php { p.t.Helper(); return runPHP(p.t, p.dsn, p.shared) }

// store opens a store, as another process would.
func (p *pair) store() driver.Store { p.t.Helper(); return p.open(p.place.ours) }

// ofDSN opens the store that PHP's DSN means. PHP gets the user of PDO as an option.
func (p *pair) ofDSN() driver.Store {
	p.t.Helper()
	dsn := strings.Replace(strings.Replace(p.dsn, "dbname=postgres", "dbname=postgres;user=postgres", 1), "dbname=mysql", "dbname=mysql;user=root", 1)
	return p.open("symfony+" + dsn + "?")
}

func (p *pair) open(rawURL string) driver.Store {
	p.t.Helper()
	var s driver.Store
	server.Eventually(p.t, func() (err error) { // tests of other tables may keep the file of SQLite locked
		s, err = all.Store(p.t.Context(), rawURL+"layout=symfony73&db_table="+p.shared)
		if err != nil && !errors.Is(err, driver.ErrUnavailable) {
			p.t.Fatal(err)
		}
		return err
	})
	p.t.Cleanup(func() { s.Close() })
	return s
}

var sharedTable = map[string]func(*testing.T, *pair){
	"each excludes the other":  eachExcludesTheOther,
	"padlock lease ends":       ourLeaseEnds,
	"php lease ends":           phpLeaseEnds,
	"renewals are seen":        renewalsAreSeen,
	"tokens are passed":        tokensArePassed,
	"strange tokens":           strangeTokens,
	"php is killed":            phpIsKilled,
	"each waits for the other": eachWaitsForTheOther,
	"php gets its turn":        phpGetsItsTurn,
}

func eachExcludesTheOther(t *testing.T, p *pair) {
	php := p.php()
	php.lock("").must("create") // the table
	s := p.ofDSN()
	for _, name := range []string{"report/42:daily run", "a", "é", "\xff\x00", "job " + strings.Repeat("x", 300)} {
		r := request(name)
		take(t, s, r)
		php.lock(name).cannot("acquire")
		free(t, s, r)
		other := php.lock(name)
		other.must("acquire")
		foreign(t, s, request(name), false)
		if st, err := s.(driver.Admin).Inspect(t.Context(), name); err != nil || len(st.Holds) != 1 || !st.Holds[0].Foreign {
			t.Errorf("Inspect while PHP holds %q: %+v, %v", name, st, err)
		}
		other.must("release")
		take(t, s, r)
	}
	if _, err := s.Acquire(t.Context(), reading("shared")); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("a shared lock: %v", err)
	}
}

// brief is a request for the shortest lease.
func brief(name string) driver.Request {
	r := request(name)
	r.TTL = time.Second
	return r
}

// PHP does not get the name before the lease of padlock ends, at the time that padlock has
// announced.
func ourLeaseEnds(t *testing.T, p *pair) {
	s, php := p.store(), p.php() // padlock makes the table
	r := brief("name")
	sent := time.Now()
	g := take(t, s, r)
	other := php.lock("name")
	eventually(t, "PHP gets a name whose lease has ended", func() bool { return other.ask("acquire", 0).OK })
	if early := g.TTL - time.Since(sent); early > 0 {
		t.Errorf("PHP got the name %v before the lease ended", early)
	}
	_, err := s.Extend(t.Context(), "name", r.Token.Text(), time.Minute)
	wantIs(t, err, driver.ErrLost, "Extend after PHP took the name")
	if out, err := s.Release(t.Context(), "name", r.Token.Text(), 0); out != driver.OutcomeGone || err != nil {
		t.Errorf("Release after PHP took the name: %v, %v", out, err)
	}
	other.must("held")
}

func phpLeaseEnds(t *testing.T, p *pair) {
	php := p.php()
	php.lock("").must("create") // the table
	other := php.lock("name")
	// The lease may be over before PHP has it.
	eventually(t, "PHP gets a lease of a second", func() bool { return other.ask("acquire", 1).OK })
	s := p.store()
	r := request("name")
	eventually(t, "padlock gets a name whose lease has ended", func() bool {
		r.Token = driver.TokenOf(newToken())
		_, err := s.Acquire(t.Context(), r)
		return err == nil
	})
	other.cannot("held")
	other.cannot("refresh")
	other.must("release") // says nothing, and ends nobody's hold
	if _, err := s.Extend(t.Context(), "name", r.Token.Text(), 0); err != nil {
		t.Errorf("padlock's hold after PHP's late release: %v", err)
	}
}

// A renewal by one side is seen by the other side.
func renewalsAreSeen(t *testing.T, p *pair) {
	php, s := p.php(), p.store()
	r := request("ours")
	take(t, s, r)
	if g, err := s.Extend(t.Context(), "ours", r.Token.Text(), time.Hour); err != nil || g.TTL < time.Hour {
		t.Fatalf("Extend: %+v, %v", g, err)
	}
	theirs := php.lock("theirs")
	theirs.ask("acquire", 60)
	if a := theirs.ask("refresh", 3600); !a.OK {
		t.Fatal(a.Error)
	}
	h := foreign(t, s, request("theirs"), false)
	if left := time.Until(h.Until); left < time.Hour-time.Minute || left > time.Hour+time.Minute {
		t.Errorf("PHP has refreshed its lock for an hour; Until is in %v", left)
	}
	if a := php.lock("ours").ask("acquire", 0); a.OK {
		t.Error("PHP got a name whose lease padlock has extended")
	}
}

// Each side works with a token of the other.
func tokensArePassed(t *testing.T, p *pair) {
	php, s := p.php(), p.store()
	r := request("ours")
	take(t, s, r)
	as := php.lockAs("ours", r.Token.Text())
	as.must("held")
	as.must("refresh")
	as.must("release")
	if _, err := s.Extend(t.Context(), "ours", r.Token.Text(), 0); !errors.Is(err, driver.ErrLost) {
		t.Errorf("Extend after PHP released the token: %v", err)
	}
	theirs := php.lock("theirs")
	token := theirs.must("acquire").Token
	if _, err := s.Extend(t.Context(), "theirs", token, time.Hour); err != nil {
		t.Errorf("Extend of PHP's token: %v", err)
	}
	l := padlock.New(s, padlock.KeepStoreOpen())
	defer l.Close(context.Background())
	key, err := padlock.KeyFor("theirs", token, padlock.ModeExclusive)
	if err != nil {
		t.Fatal(err)
	}
	lock, err := l.Adopt(t.Context(), key)
	if err != nil {
		t.Fatalf("Adopt of PHP's token: %v", err)
	}
	theirs.cannot("held")
	theirs.cannot("refresh")
	theirs.must("release")
	if err := lock.Check(t.Context()); err != nil {
		t.Errorf("the adopted lock: %v", err)
	}
	if err := lock.Release(); err != nil {
		t.Errorf("Release of the adopted lock: %v", err)
	}
	theirs = php.lock("theirs")
	token = theirs.must("acquire").Token
	if out, err := s.Release(t.Context(), "theirs", token, 0); out != driver.OutcomeReleased || err != nil {
		t.Errorf("Release of PHP's token: %v, %v", out, err)
	}
	theirs.cannot("held")
}

// A token that holds nothing ends nobody's hold.
func strangeTokens(t *testing.T, p *pair) {
	php, s := p.php(), p.store()
	r := request("ours")
	take(t, s, r)
	php.lockAs("ours", newToken()).must("release")
	if _, err := s.Extend(t.Context(), "ours", r.Token.Text(), 0); err != nil {
		t.Errorf("PHP has released another token, and padlock's hold is gone: %v", err)
	}
	theirs := php.lock("theirs")
	theirs.must("acquire")
	for _, token := range []string{newToken(), "short", strings.Repeat("x", 128), "\xff\x00"} {
		if out, err := s.Release(t.Context(), "theirs", token, 0); out != driver.OutcomeGone || err != nil {
			t.Errorf("Release with another token: %v, %v", out, err)
		}
		if _, err := s.Extend(t.Context(), "theirs", token, time.Minute); !errors.Is(err, driver.ErrLost) {
			t.Errorf("Extend with another token: %v", err)
		}
	}
	theirs.must("held")
}

func phpIsKilled(t *testing.T, p *pair) {
	php, s := p.php(), p.store()
	const lease = 5 // seconds: on a busy machine, padlock's first request may come late
	if a := php.lock("name").ask("acquire", lease); !a.OK {
		t.Fatal(a.Error)
	}
	foreign(t, s, request("name"), false)
	php.kill()
	l := padlock.New(s, padlock.KeepStoreOpen())
	defer l.Close(context.Background())
	lock, err := l.Acquire(t.Context(), "name", padlock.Wait(patience))
	if err != nil {
		t.Fatalf("after the holder was killed: %v", err)
	}
	if err := lock.Release(); err != nil {
		t.Error(err)
	}
}

func eachWaitsForTheOther(t *testing.T, p *pair) {
	php, s := p.php(), p.store()
	l := padlock.New(s, padlock.KeepStoreOpen())
	defer l.Close(context.Background())
	for range 3 {
		other := php.lock("name")
		other.must("acquire")
		got := make(chan error, 1)
		var lock *padlock.Lock
		go func() {
			var err error
			lock, err = l.Acquire(t.Context(), "name", padlock.Wait(patience))
			got <- err
		}()
		other.must("release")
		if err := <-got; err != nil {
			t.Fatalf("padlock waits for PHP: %v", err)
		}
		waiting := php.lock("name")
		waiting.begin(phpRequest{Do: "wait"})
		if err := lock.Release(); err != nil {
			t.Fatal(err)
		}
		if a := <-php.out; !a.OK {
			t.Fatalf("PHP waits for padlock: %+v", a)
		}
		waiting.must("release")
	}
}

// PHP gets a name that goroutines of one process use without a pause.
func phpGetsItsTurn(t *testing.T, p *pair) {
	php, s := p.php(), p.store()
	l := padlock.New(s, padlock.KeepStoreOpen())
	defer l.Close(context.Background())
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan int)
	for range 4 {
		go func() {
			n := 0
			for ; ctx.Err() == nil; n++ {
				_ = l.Do(ctx, "busy", work, padlock.Wait(patience))
			}
			ended <- n
		}()
	}
	other := php.lock("busy")
	for range 3 {
		other.begin(phpRequest{Do: "wait"})
		select {
		case a := <-php.out:
			if !a.OK {
				t.Errorf("PHP waits for its turn: %+v", a)
			}
		case <-time.After(patience):
			t.Fatalf("PHP did not get its turn within %v", patience)
		}
		other.must("release")
	}
	stop()
	for range 4 {
		if <-ended == 0 {
			t.Error("a goroutine never got the lock")
		}
	}
}

// work lasts so long that the name is hardly ever free when PHP looks.
func work(ctx context.Context) error {
	select {
	case <-time.After(100 * time.Millisecond):
	case <-ctx.Done():
	}
	return nil
}

// The DSNs with which PHP names a database lead to the same table as padlock's URLs.
func TestLockKeysDSN(t *testing.T) {
	path := filepath.ToSlash(filepath.Join(t.TempDir(), "dsn.db"))
	needsDatabases(t)
	for _, dsn := range []string{"sqlite:" + path, "sqlite:///" + path, "sqlite3:///" + path} {
		php := runPHP(t, dsn)
		lock := php.lock("name")
		lock.must("acquire")
		s, err := all.Store(t.Context(), "symfony+"+dsn+"?layout=symfony73")
		if err != nil {
			t.Fatalf("%s: %v", dsn, err)
		}
		foreign(t, s, request("name"), false)
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		lock.must("release")
		_, _, err = open.Parse("symfony+"+dsn, open.Schemes(all.Schemes()...))
		if !errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), "layout=symfony73") || !strings.Contains(err.Error(), "layout=symfony if") {
			t.Errorf("%s without a layout: %v", dsn, err)
		}
	}
}
