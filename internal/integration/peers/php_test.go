package peers

import (
	"bufio"
	"encoding/base64"
	"encoding/json"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/padlock-go/padlock/internal/server"
)

// php is a process with Symfony's locks. It does one thing at a time.
type php struct {
	t    testing.TB
	cmd  *exec.Cmd
	in   io.Writer
	out  chan phpAnswer // closed when the process has ended
	made int
}

type phpAnswer struct {
	OK    bool
	Did   string
	Error string
	Token string
}

// phpCommand returns PHP's path. Without PHP the test is skipped, or fails in CI. `make test`
// installs PHP.
func phpCommand(t testing.TB) string {
	t.Helper()
	path, err := exec.LookPath("php")
	if err == nil {
		_, err = os.Stat("/usr/share/php/Symfony/Component/Lock/autoload.php")
	}
	if err == nil {
		err = exec.Command(path, "-r", "exit(extension_loaded('redis') ? 0 : 1);").Run()
	}
	switch {
	case err == nil:
		return path
	case os.Getenv("CI") == "true":
		t.Fatalf("php with Symfony Lock and phpredis is missing, and under CI it may not be: %v", err)
	default:
		t.Skipf("php with Symfony Lock and phpredis is missing (%v): run make test once, which installs it", err)
	}
	return ""
}

// startPHP starts a process that ends with the test. Its connection puts prefix
// before every key.
func startPHP(t testing.TB, srv *server.Server, prefix string) *php {
	t.Helper()
	host, port, err := net.SplitHostPort(srv.Addr())
	if err != nil {
		t.Fatal(err)
	}
	return runPHP(t, host, port, prefix)
}

func runPHP(t testing.TB, args ...string) *php {
	t.Helper()
	cmd := exec.Command(phpCommand(t), append([]string{filepath.Join("testdata", "lock.php")}, args...)...)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p := &php{t: t, cmd: cmd, in: in, out: make(chan phpAnswer, 1000)}
	go p.listen(out)
	t.Cleanup(p.kill)
	return p
}

func (p *php) listen(r io.Reader) {
	defer close(p.out)
	for lines := bufio.NewScanner(r); lines.Scan(); {
		var a phpAnswer
		if err := json.Unmarshal(lines.Bytes(), &a); err != nil {
			p.t.Errorf("PHP said %q: %v", lines.Text(), err)
			return
		}
		p.out <- a
	}
}

// kill ends the process as a crash does: what it holds stays until it lapses.
func (p *php) kill() {
	p.cmd.Process.Kill()
	for range p.out { // to its end, for Wait closes the pipe
	}
	_ = p.cmd.Wait() // killed
}

// phpLock is one Lock object of PHP's, with a key of its own.
type phpLock struct {
	p     *php
	id    string
	name  string
	token string // it shall have; "" for one of its own
}

func (p *php) lock(name string) *phpLock { return p.lockAs(name, "") }

// lockAs makes a lock with a given token, as unserialising a key does.
func (p *php) lockAs(name, token string) *phpLock {
	p.made++
	return &phpLock{p, strconv.Itoa(p.made), name, token}
}

type phpRequest struct {
	Do    string  `json:"do"`
	ID    string  `json:"id"`
	Name  string  `json:"name"`
	Token string  `json:"token"`
	TTL   float64 `json:"ttl"`
	Times int     `json:"times"`
}

// begin sends a command; its answer comes when it is done.
func (l *phpLock) begin(r phpRequest) {
	l.p.t.Helper()
	r.ID, r.Name, r.Token = l.id, base64.StdEncoding.EncodeToString([]byte(l.name)), l.token
	if r.TTL == 0 {
		r.TTL = 60
	}
	text, err := json.Marshal(r)
	if err != nil {
		l.p.t.Fatal(err)
	}
	if _, err := l.p.in.Write(append(text, '\n')); err != nil {
		l.p.t.Fatal(err)
	}
}

func (l *phpLock) ask(do string, ttl float64) phpAnswer {
	l.p.t.Helper()
	l.begin(phpRequest{Do: do, TTL: ttl})
	a, ok := <-l.p.out
	if !ok || a.Did != do {
		l.p.t.Fatalf("PHP has ended, or answers %q to %s of %q", a.Did, do, l.name)
	}
	return a
}

// must has PHP do something that is to succeed.
func (l *phpLock) must(do string) phpAnswer {
	l.p.t.Helper()
	a := l.ask(do, 0)
	if !a.OK {
		l.p.t.Fatalf("PHP cannot %s %q: %s", do, l.name, a.Error)
	}
	return a
}

// cannot makes PHP try an operation that must be refused. The result false or a
// LockConflictedException counts as refused; any other exception is a failure.
func (l *phpLock) cannot(do string) {
	l.p.t.Helper()
	a := l.ask(do, 0)
	if a.OK || a.Error != "" && !strings.HasSuffix(a.Error, `\LockConflictedException`) {
		l.p.t.Fatalf("PHP could %s %q (%+v)", do, l.name, a)
	}
}
