package web

import (
	"bufio"
	"bytes"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/padlock-go/padlock/internal/server"
)

var buildPadlock = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "padlock-web-")
	if err != nil {
		return "", err
	}
	return server.BuildPadlock(dir)
})

func TestMain(m *testing.M) {
	status := m.Run()
	if binary, _ := buildPadlock(); binary != "" {
		os.RemoveAll(filepath.Dir(binary))
	}
	os.Exit(status)
}

// place is a directory with a store of files, for one test.
type place struct {
	t   *testing.T
	dir string
	env []string
}

func newPlace(t *testing.T) *place {
	t.Helper()
	p := &place{t: t, dir: t.TempDir()}
	p.env = append(os.Environ(), "PADLOCK_STORE=file://"+filepath.Join(p.dir, "locks"))
	return p
}

// file writes a file and returns its path.
func (p *place) file(name, text string) string {
	p.t.Helper()
	path := filepath.Join(p.dir, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		p.t.Fatal(err)
	}
	return path
}

func (p *place) command(args ...string) *exec.Cmd {
	p.t.Helper()
	binary, err := buildPadlock()
	if err != nil {
		p.t.Fatal(err)
	}
	cmd := exec.Command(binary, args...)
	cmd.Env = p.env
	return cmd
}

// serving is a padlock serve that runs.
type serving struct {
	t    *testing.T
	cmd  *exec.Cmd
	url  string
	logs *bytes.Buffer // read it after end
}

// serve starts padlock serve on a free port and waits until it listens.
func (p *place) serve(args ...string) *serving {
	p.t.Helper()
	return p.started(p.command(append([]string{"serve", "--listen", "127.0.0.1:0"}, args...)...))
}

// started starts a command that serves, and reads its address.
func (p *place) started(cmd *exec.Cmd) *serving {
	p.t.Helper()
	s := &serving{t: p.t, cmd: cmd, logs: &bytes.Buffer{}}
	cmd.Stderr = s.logs
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	_, url, ok := strings.Cut(strings.TrimSpace(line), " are at ")
	if err != nil || !ok {
		cmd.Process.Kill()
		cmd.Wait()
		p.t.Fatalf("it prints %q: %v\n%s", line, err, s.logs)
	}
	s.url = url
	return s
}

// end ends it as systemd does and returns its log.
func (s *serving) end() string {
	s.t.Helper()
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		s.t.Fatal(err)
	}
	if err := s.cmd.Wait(); err != nil {
		s.t.Errorf("after SIGTERM: %v", err)
	}
	return s.logs.String()
}

// get reads a page. token may be "".
func (s *serving) get(client *http.Client, path, token string) (status int, text string) {
	s.t.Helper()
	r, err := http.NewRequestWithContext(s.t.Context(), http.MethodGet, s.url+path, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	reply, err := client.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer reply.Body.Close()
	body, err := io.ReadAll(reply.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return reply.StatusCode, string(body)
}

// job is a padlock run that holds a lock until it is released.
type job struct {
	cmd *exec.Cmd
	in  io.Closer
}

// run starts padlock run. The job ends when its input does.
func (p *place) run(args ...string) *job {
	p.t.Helper()
	return p.begun(p.command(append(append([]string{"run"}, args...), "--", "cat")...))
}

// begun starts a command that ends when its input does.
func (p *place) begun(cmd *exec.Cmd) *job {
	p.t.Helper()
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() {
		cmd.Process.Signal(syscall.SIGTERM)
		in.Close()
		cmd.Wait()
	})
	return &job{cmd, in}
}

func (j *job) end(t *testing.T) {
	t.Helper()
	j.in.Close()
	if err := j.cmd.Wait(); err != nil {
		t.Error(err)
	}
}
