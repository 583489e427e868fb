package redissession_test

import (
	"context"
	_ "embed"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/web/session"
	"github.com/padlock-go/padlock/web/session/phpcodec"
	"github.com/padlock-go/padlock/web/session/phpsession"
	"github.com/padlock-go/padlock/web/session/redissession"
	"github.com/padlock-go/padlock/web/session/sessiontest/load"
	"github.com/redis/rueidis"
)

//go:embed testdata/app.php
var app []byte

// phpSetup says how PHP keeps its sessions.
type phpSetup struct {
	savePath string // what comes after the address
	handler  phpcodec.Handler
	locks    string // more lines of php.ini
}

const patientLocks = `redis.session.lock_retries = -1
redis.session.lock_wait_time = 2000
redis.session.lock_expire = 60
`

func (p phpSetup) ini(redis string) string {
	return fmt.Sprintf(`session.save_handler = redis
session.save_path = "tcp://%s%s"
session.serialize_handler = %s
session.use_strict_mode = 1
redis.session.locking_enabled = 1
%s`, redis, p.savePath, p.handler, p.locks)
}

// needPHP skips where PHP or its redis extension is missing, and fails in CI.
func needPHP(t testing.TB) {
	t.Helper()
	out, err := exec.Command("php", "-r", `exit(extension_loaded("redis") && extension_loaded("posix") ? 0 : 1);`).CombinedOutput()
	if err == nil {
		return
	}
	if os.Getenv("CI") == "true" {
		t.Fatalf("packages php-cli and php-redis are needed: %v %s", err, out)
	}
	t.Skipf("packages php-cli and php-redis are needed: %v %s", err, out)
}

// startPHP serves app.php with PHP's own web server.
func startPHP(t testing.TB, redis string, setup phpSetup) *server.Server {
	t.Helper()
	needPHP(t)
	return server.Start(t, server.Spec{
		Name: "php", Package: "php-cli", Binary: []string{"php"}, Env: []string{"PHP_CLI_SERVER_WORKERS=12"},
		Args: func(p server.Place) []string {
			return []string{"-c", p.Path("php.ini"), "-S", p.Addr(), p.Path("app.php")}
		},
		Prepare: func(_ context.Context, p server.Place) error {
			if err := p.Write("php.ini", []byte(setup.ini(redis))); err != nil {
				return err
			}
			return p.Write("app.php", app)
		},
		Ready: func(ctx context.Context, p server.Place) error { return ready(ctx, "http://"+p.Addr()+"/ready") },
		URL:   func(p server.Place) string { return "http://" + p.Addr() },
	})
}

func ready(ctx context.Context, url string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	return res.Body.Close()
}

// Type both has two applications with the same sessions: one in PHP and one in Go.
type both struct {
	t      testing.TB
	raw    client
	m      *session.Manager
	php    *load.Client
	golang *load.Client
	locker *padlock.Locker
}

// newBoth starts the two applications. o connects Go to the database that PHP uses.
func newBoth(t testing.TB, o rueidis.ClientOption, setup phpSetup, php phpsession.Config, mode session.Mode) *both {
	t.Helper()
	b := &both{t: t, raw: dial(t, o), locker: newLocker(t, o, redissession.PHPLocks()...)}
	m, err := phpsession.New(newRedis(t, b.raw).Blobs(), b.locker, php, plain, patient)
	noError(t, err)
	b.m, b.golang = m, serve(t, load.Handler(m, mode))
	b.php = load.NewClient(startPHP(t, o.InitAddress[0], setup).URL(), 200)
	t.Cleanup(b.php.Close)
	return b
}

// getPage sends a request to one of the two applications. If the answer sets a cookie, the visitor
// then sends that cookie to both.
func (b *both) getPage(c *load.Client, path string) string {
	b.t.Helper()
	a, err := c.Get(context.Background(), 0, path)
	noError(b.t, err)
	if a.Status != http.StatusOK {
		b.t.Fatalf("%s: %d %s", path, a.Status, a.Body)
	}
	if a.Cookie != nil {
		b.php.Cookie, b.golang.Cookie = a.Cookie, a.Cookie
	}
	return strings.TrimSpace(a.Body)
}

func (b *both) want(c *load.Client, path, body string) {
	b.t.Helper()
	if got := b.getPage(c, path); got != body {
		b.t.Errorf("%s: %q, want %q", path, got, body)
	}
}

const userName = `Zoë "the|one"; {x} {"0":"a","k":[1.5,true,null]}`

// TestPHPOneVisitor has a visitor log in at PHP and then use both applications in turn. It does so
// for every way in which PHP can keep sessions.
func TestPHPOneVisitor(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		setup phpSetup
		php   phpsession.Config
		db    int
		key   string
	}{
		"defaults": {phpSetup{"", phpcodec.PHP, ""}, phpsession.Config{}, 0, "PHPREDIS_SESSION:"},
		"prefix and database": {phpSetup{"?prefix=APP_S:&database=2", phpcodec.PHPSerialize, patientLocks},
			phpsession.Config{Handler: phpcodec.PHPSerialize, Prefix: "APP_S:"}, 2, "APP_S:"},
		"php_binary": {phpSetup{"?prefix={app}", phpcodec.PHPBinary, patientLocks},
			phpsession.Config{Handler: phpcodec.PHPBinary, Prefix: "{app}"}, 0, "{app}"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := clientOption(startRedis(t).Addr())
			o.SelectDB = c.db
			b := newBoth(t, o, c.setup, c.php, session.Delta)
			b.getPage(b.php, "/login")
			key := c.key + b.php.Cookie.Value
			before := askServer(t, b.raw, "GET", key)
			b.want(b.golang, "/incr?key=n", "6")
			b.getPage(b.golang, "/set?key=cart&work=0s")
			b.want(b.golang, "/keys", "user\npi\nlist\nn\ncart")
			b.onlyChanged(before, askServer(t, b.raw, "GET", key))
			b.want(b.php, "/user", userName)
			b.want(b.php, "/json?key=n", "6")
			b.want(b.php, "/json?key=cart", "1")
			b.want(b.php, "/json?key=list", `{"x":1,"5":"\u00e9","deep":[[],-7,false]}`)
			b.getPage(b.php, "/logout")
			b.want(b.golang, "/keys", "")
		})
	}
}

// onlyChanged checks that n and cart have changed and that nothing else has.
func (b *both) onlyChanged(before, after string) {
	b.t.Helper()
	at := strings.LastIndex(before, "i:5;")
	if at < 0 || !strings.Contains(before, `O:4:"User":3`) {
		b.t.Fatalf("PHP wrote %q", before)
	}
	from := 0
	if strings.HasPrefix(before, "a:4:{") { // php_serialize counts
		from = len("a:4:{")
	}
	if len(after) < at+4 || after[from:at] != before[from:at] || after[at:at+4] != "i:6;" || !strings.Contains(after[at+4:], "cart") {
		b.t.Errorf("before %q\nafter  %q", before, after)
	}
}

// TestPHPGoFirst begins the session in Go. PHP accepts its id, even though PHP is strict.
func TestPHPGoFirst(t *testing.T) {
	t.Parallel()
	b := newBoth(t, clientOption(startRedis(t).Addr()), phpSetup{"", phpcodec.PHP, ""}, phpsession.Config{}, session.Delta)
	b.getPage(b.golang, "/start")
	id := b.golang.Cookie.Value
	b.want(b.php, "/json?key=started", "1")
	b.getPage(b.php, "/set?key=k&work=0s")
	if b.php.Cookie.Value != id {
		t.Error("PHP took another id")
	}
	b.want(b.golang, "/keys", "started\nk")
	b.getPage(b.golang, "/logout")
	b.want(b.php, "/json?key=started", "null")
	if n := askServer(t, b.raw, "EXISTS", "PHPREDIS_SESSION:"+id, "PHPREDIS_SESSION:"+id+"_LOCK"); n != "0" {
		t.Errorf("%s keys are left", n)
	}
}

// TestPHPCrowd has half of the requests served by PHP.
func TestPHPCrowd(t *testing.T) {
	t.Parallel()
	for name, mode := range map[string]session.Mode{"Delta": session.Delta, "Exclusive": session.Exclusive} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBoth(t, clientOption(startRedis(t).Addr()), phpSetup{"", phpcodec.PHP, patientLocks}, phpsession.Config{}, mode)
			servers := []string{b.golang.Base(0), b.php.Base(0)}
			mixed := *b.golang
			mixed.Base = func(i int) string { return servers[i%2] }
			works := []time.Duration{0}
			if server.IsThorough() {
				works = []time.Duration{25 * time.Millisecond, 0}
			}
			for _, work := range works {
				b.php.Cookie, b.golang.Cookie = nil, nil
				b.getPage(b.php, "/login")
				key := "PHPREDIS_SESSION:" + b.php.Cookie.Value
				before := askServer(t, b.raw, "GET", key)
				mixed.Cookie = b.php.Cookie
				r := mixed.Run(t.Context(), load.Set(load.CrowdSize, work, 0))
				load.CheckAll(t, r, http.StatusOK)
				if n, err := b.golang.Kept(t.Context(), load.CrowdSize); n != load.CrowdSize || err != nil {
					t.Errorf("%d of %d kept, %v", n, load.CrowdSize, err)
				}
				if after := askServer(t, b.raw, "GET", key); !strings.HasPrefix(after, before) {
					t.Errorf("what nobody touched was changed: before %q, after %.300q", before, after)
				}
				t.Logf("%d requests in %v", load.CrowdSize, r.Wall)
			}
		})
	}
}

// TestPHPCounts has both applications read a counter, work, and write the counter.
func TestPHPCounts(t *testing.T) {
	t.Parallel()
	b := newBoth(t, clientOption(startRedis(t).Addr()), phpSetup{"", phpcodec.PHP, patientLocks}, phpsession.Config{}, session.Exclusive)
	b.getPage(b.golang, "/start")
	servers := []string{b.golang.Base(0), b.php.Base(0)}
	mixed := *b.golang
	mixed.Base = func(i int) string { return servers[i%2] }
	r := mixed.Run(t.Context(), load.Add(load.CrowdSize, 2*time.Millisecond))
	load.CheckAll(t, r, http.StatusOK)
	b.want(b.golang, "/value?key=n", fmt.Sprint(load.CrowdSize))
}

// TestPHPCrashed has PHP die with a lock that never expires.
func TestPHPCrashed(t *testing.T) {
	server.Thorough(t)
	t.Parallel()
	addr := startRedis(t).Addr()
	b := newBoth(t, clientOption(addr), phpSetup{"", phpcodec.PHP, ""}, phpsession.Config{}, session.Delta)
	b.getPage(b.php, "/login")
	id := b.php.Cookie.Value
	dir := t.TempDir()
	noError(t, os.WriteFile(dir+"/php.ini", []byte(phpSetup{"", phpcodec.PHP, ""}.ini(addr)), 0o600))
	noError(t, os.WriteFile(dir+"/app.php", app, 0o600))
	out, err := exec.Command("php", "-c", dir+"/php.ini", dir+"/app.php", id).CombinedOutput()
	if err == nil {
		t.Fatalf("PHP did not crash: %s", out)
	}
	if ttl := askServer(t, b.raw, "PTTL", "PHPREDIS_SESSION:"+id+"_LOCK"); ttl != "-1" {
		t.Fatalf("PHP left a lock for %s ms", ttl)
	}
	m, err := phpsession.New(newRedis(t, b.raw).Blobs(), b.locker, phpsession.Config{}, plain, session.MaxWait(2*time.Second))
	noError(t, err)
	c := serve(t, load.Handler(m))
	c.Cookie = b.php.Cookie
	a, err := c.Get(t.Context(), 0, "/set?key=k&work=0s")
	noError(t, err)
	want := fmt.Sprintf("PHPREDIS_SESSION:%s…_LOCK", id[:6])
	if a.Status != http.StatusServiceUnavailable {
		t.Errorf("%d %s", a.Status, a.Body)
	}
	said := busyWrite(t, m, b.php.Cookie)
	if !said.Foreign || said.Lock != want || !strings.Contains(said.Error(), "no expiry") || strings.Contains(said.Error(), id) {
		t.Errorf("%v", said)
	}
	askServer(t, b.raw, "DEL", "PHPREDIS_SESSION:"+id+"_LOCK")
	b.getPage(c, "/set?key=k&work=0s")
}

// setsSoFar returns how often SET was called. PHP calls SET again and again while it waits for a
// lock.
func setsSoFar(t testing.TB, c rueidis.Client) (n int) {
	t.Helper()
	_, rest, _ := strings.Cut(askServer(t, c, "INFO", "commandstats"), "cmdstat_set:calls=")
	fmt.Sscan(strings.NewReplacer(",", " ").Replace(rest), &n)
	return n
}

func eventually(t testing.TB, what string, yes func() bool) {
	t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(30 * time.Second); !yes(); <-tick.C {
		if time.Now().After(end) {
			t.Fatalf("after 30 s still not: %s", what)
		}
	}
}
