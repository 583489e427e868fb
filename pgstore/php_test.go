package pgstore_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/pgstore"
)

// A php is a process with Symfony's PostgreSqlStore.
type php struct {
	t   *testing.T
	in  io.Writer
	out *bufio.Reader
}

func startPHP(t *testing.T, srv *server.Server) *php {
	t.Helper()
	path, err := exec.LookPath("php")
	if err == nil {
		_, err = os.Stat("/usr/share/php/Symfony/Component/Lock/autoload.php")
	}
	if err == nil {
		err = exec.Command(path, "-r", "exit(extension_loaded('pdo_pgsql') ? 0 : 1);").Run()
	}
	if err != nil && os.Getenv("CI") == "true" {
		t.Fatalf("php with Symfony Lock and pdo_pgsql is missing, and under CI it may not be: %v", err)
	}
	if err != nil {
		t.Skipf("php with Symfony Lock and pdo_pgsql is missing: %v", err)
	}
	host, port, err := net.SplitHostPort(srv.Addr())
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(path, "testdata/lock.php", fmt.Sprintf("pgsql:host=%s;port=%s;dbname=postgres", host, port))
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

// PHP and padlock exclude each other in both directions and both modes.
func TestSymfony(t *testing.T) {
	t.Parallel()
	srv := server.Postgres(t, server.PostgresOptions{})
	p := startPHP(t, srv)
	s := mustOpen(t, srv.URL(), pgstore.SymfonyLayout())
	for _, name := range []string{"report/42:daily run", "a", "é", "job " + strings.Repeat("x", 300)} {
		r := request(name)
		take(t, s, r)
		p.says("no", "acquire "+name)
		p.says("no", "read "+name)
		release(t, s, r)

		p.says("yes", "acquire "+name)
		if held := refused(t, s, request(name)); !held.Foreign() {
			t.Errorf("PHP has the lock; the error says %+v", held.Holds)
		}
		refused(t, s, reader(name))
		p.says("yes", "release "+name)

		read := reader(name)
		take(t, s, read)
		p.says("yes", "read "+name)
		p.says("no", "acquire "+name)
		refused(t, s, request(name))
		write := read
		write.Shared = false
		if _, err := s.Convert(t.Context(), write); err == nil {
			t.Error("a reader was promoted while PHP reads")
		}
		p.says("yes", "release "+name)
		if _, err := s.Convert(t.Context(), write); err != nil {
			t.Errorf("promotion of the only reader: %v", err)
		}
		p.says("no", "read "+name)
		release(t, s, read)
	}
	p.says("yes", "acquire a")
	own := mustOpen(t, srv.URL())
	r := request("a")
	take(t, own, r) // another layout, another lock
	release(t, own, r)
}

// A waiter gets a lock that PHP gives back.
func TestWaitForSymfony(t *testing.T) {
	t.Parallel()
	srv := server.Postgres(t, server.PostgresOptions{})
	p := startPHP(t, srv)
	s := mustOpen(t, srv.URL(), pgstore.SymfonyLayout())
	p.says("yes", "acquire job")
	r := request("job")
	granted := make(chan error, 1)
	go func() {
		for {
			g, err := s.Wait(t.Context(), r, true)
			if err != nil || g.TTL > 0 {
				granted <- err
				return
			}
		}
	}()
	conn := connect(t, srv.URL())
	queued(t, conn)
	p.says("yes", "release job")
	if err := <-granted; err != nil {
		t.Fatal(err)
	}
	take(t, s, r)
	p.says("no", "acquire job")
	release(t, s, r)
	p.says("yes", "acquire job")
}
