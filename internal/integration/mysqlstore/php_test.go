package mysqlstore_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/server"
)

// A php is a process that takes locks with the statements of Symfony's MysqlStore.
type php struct {
	t   *testing.T
	in  io.Writer
	out *bufio.Reader
}

func startPHP(t *testing.T, srv *server.Server) *php {
	t.Helper()
	path, err := exec.LookPath("php")
	if err == nil {
		err = exec.Command(path, "-r", "exit(extension_loaded('pdo_mysql') ? 0 : 1);").Run()
	}
	if err != nil && os.Getenv("CI") == "true" {
		t.Fatalf("php with pdo_mysql is missing, and under CI it may not be: %v", err)
	}
	if err != nil {
		t.Skipf("php with pdo_mysql is missing: %v", err)
	}
	host, port, err := net.SplitHostPort(srv.Addr())
	noError(t, err)
	cmd := exec.Command(path, "testdata/lock.php", fmt.Sprintf("mysql:host=%s;port=%s", host, port))
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	noError(t, err)
	out, err := cmd.StdoutPipe()
	noError(t, err)
	noError(t, cmd.Start())
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	return &php{t, in, bufio.NewReader(out)}
}

// says checks what PHP answers to a line.
func (p *php) says(want, line string) {
	p.t.Helper()
	fmt.Fprintln(p.in, line)
	if got, err := p.out.ReadString('\n'); strings.TrimSpace(got) != want {
		p.t.Fatalf("%s: PHP says %q, %v; want %q", line, got, err, want)
	}
}

// PHP and padlock exclude each other in both directions.
func TestPHP(t *testing.T) {
	t.Parallel()
	srv := shared(t)
	p, dsn := startPHP(t, srv), database(t, srv)
	s, plain := mustOpenURL(t, dsn, "layout=symfony"), mustOpenURL(t, dsn, "")
	for _, name := range []string{"report/42:daily run", "php a", "é", "job " + strings.Repeat("x", 300)} {
		r := request(name)
		take(t, s, r)
		p.says("no", "acquire "+name)
		release(t, s, r)

		p.says("yes", "acquire "+name)
		if held := refused(t, s, request(name)); !held.Foreign() {
			t.Errorf("PHP has the lock; the error says %+v", held.Holds)
		}
		own := request(name)
		take(t, plain, own) // another layout, another lock
		release(t, plain, own)
		p.says("yes", "release "+name)
	}
}

// A waiter gets a lock that PHP gives back, and PHP waits for a lock of padlock's.
func TestWaitForPHP(t *testing.T) {
	t.Parallel()
	srv := shared(t)
	p, dsn := startPHP(t, srv), database(t, srv)
	s := mustOpenURL(t, dsn, "layout=symfony")
	p.says("yes", "acquire a job of PHP")
	r := request("a job of PHP")
	granted := make(chan driver.Request, 1)
	go func() {
		for t.Context().Err() == nil {
			r := request(r.Name)
			if g, err := s.Wait(t.Context(), r, true); err != nil || g.TTL == 0 {
				continue
			}
			if _, err := s.Acquire(t.Context(), r); err == nil {
				granted <- r
				return
			}
		}
	}()
	queued(t, dsn, 1)
	p.says("yes", "release a job of PHP")
	r = <-granted
	p.says("no", "acquire a job of PHP")
	fmt.Fprintln(p.in, "wait a job of PHP")
	release(t, s, r)
	if got, err := p.out.ReadString('\n'); got != "yes\n" {
		t.Fatalf("PHP waits and says %q, %v", got, err)
	}
	refused(t, s, request(r.Name))
}
