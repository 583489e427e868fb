package pages

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/stores/redisstore"
)

const root = "../../.."

// A block is a fenced block of a page.
type block struct {
	page string // from the root of the tree
	text string
}

// blocks returns the blocks of a language in the README and in docs/.
func blocks(t *testing.T, language string) []block {
	t.Helper()
	pages := []string{filepath.Join(root, "README.md")}
	for _, pattern := range []string{"docs/*.md", "docs/*/*.md"} {
		found, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			t.Fatal(err)
		}
		pages = append(pages, found...)
	}
	var all []block
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		name, err := filepath.Rel(root, page)
		if err != nil {
			t.Fatal(err)
		}
		for _, part := range strings.Split("\n"+string(text), "\n```"+language+"\n")[1:] {
			body, _, ended := strings.Cut(part, "\n```")
			if !ended {
				t.Errorf("%s: a block has no end", name)
			}
			all = append(all, block{name, body + "\n"})
		}
	}
	return all
}

// programs are the Go blocks that are whole files.
func programs(t *testing.T) map[string][]string {
	t.Helper()
	all := map[string][]string{}
	for _, b := range blocks(t, "go") {
		if strings.HasPrefix(b.text, "package ") {
			all[b.page] = append(all[b.page], b.text)
		}
	}
	return all
}

// write puts the files of a page into a directory and returns their names.
func write(t *testing.T, texts []string) []string {
	t.Helper()
	dir := t.TempDir()
	var names []string
	for _, text := range texts {
		name := filepath.Join(dir, "main.go")
		if strings.Contains(text, "\n\t\"testing\"\n") {
			name = filepath.Join(dir, "main_test.go")
		}
		if _, err := os.Stat(name); err == nil && filepath.Base(name) == "main.go" {
			name = filepath.Join(dir, fmt.Sprintf("more%d.go", len(names))) // a further file of the program
		}
		if _, err := os.Stat(name); err == nil {
			t.Fatalf("two blocks of the page are %s", filepath.Base(name))
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		names = append(names, name)
	}
	return names
}

// mains divides the files of a page into programs. A page may have several functions main, and each
// begins a program.
func mains(texts []string) (all [][]string) {
	began := false
	for _, text := range texts {
		main := strings.Contains(text, "\nfunc main() {")
		if len(all) == 0 || main && began {
			all = append(all, nil)
			began = false
		}
		began = began || main
		all[len(all)-1] = append(all[len(all)-1], text)
	}
	return all
}

// Every program compiles, is formatted, and passes go vet.
func TestProgramsCompile(t *testing.T) {
	all := programs(t)
	for _, page := range []string{"README.md", "docs/first-program.md", "docs/fences.md", "docs/shutdown.md", "docs/election.md",
		"docs/from-redis-locks.md"} {
		if len(all[page]) == 0 {
			t.Errorf("%s has no program any more", page)
		}
	}
	for page, texts := range all {
		t.Run(page, func(t *testing.T) {
			for _, program := range mains(texts) {
				files := write(t, program)
				if out, err := exec.Command("go", append([]string{"vet"}, files...)...).CombinedOutput(); err != nil {
					t.Errorf("go vet: %v\n%s", err, out)
				}
				if out, err := exec.Command("gofmt", append([]string{"-l"}, files...)...).CombinedOutput(); err != nil || len(out) > 0 {
					t.Errorf("gofmt would change a program: %v", err)
				}
			}
		})
	}
}

// build compiles the program of a page and returns a command that runs it in its own directory.
func build(t *testing.T, page string) *exec.Cmd {
	t.Helper()
	return buildFiles(t, programs(t)[page])
}

// buildFile compiles a program that no page shows as a whole.
func buildFile(t *testing.T, name string) *exec.Cmd {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		t.Fatal(err)
	}
	return buildFiles(t, []string{string(text)})
}

func buildFiles(t *testing.T, texts []string) *exec.Cmd {
	t.Helper()
	dir := t.TempDir()
	for _, name := range write(t, texts) {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		binary := filepath.Join(dir, "program")
		if out, err := exec.Command("go", "build", "-o", binary, name).CombinedOutput(); err != nil {
			t.Fatalf("go build: %v\n%s", err, out)
		}
	}
	return program(dir)
}

// redisURL starts a Redis. Programs keep its run id in a directory of the test. In that of the user
// there may be the id of another server that had the same port.
func redisURL(t *testing.T) string {
	t.Helper()
	return server.Redis(t, server.RedisOptions{}).URL() + "?run-ids=" + t.TempDir()
}

func program(dir string) *exec.Cmd {
	cmd := exec.Command(filepath.Join(dir, "program"))
	cmd.Dir = dir
	return cmd
}

// The program of the README does its work, unless another process has the lock. Then it names that
// process.
func TestReadmeProgram(t *testing.T) {
	redis := server.Redis(t, server.RedisOptions{})
	texts := programs(t)["README.md"]
	brief := strings.NewReplacer("localhost:6379", redis.Addr(), "5 * time.Second", "time.Millisecond").Replace(texts[0])
	first := buildFiles(t, []string{brief})
	out, err := first.CombinedOutput()
	if want := "one process at a time\n"; err != nil || string(out) != want {
		t.Errorf("got %q, %v, want %q", out, err, want)
	}
	store, err := redisstore.Open(t.Context(), redisstore.Config{Addrs: []string{redis.Addr()}})
	if err != nil {
		t.Fatal(err)
	}
	locker := padlock.New(store)
	defer locker.Close(context.Background())
	if _, err := locker.TryAcquire(t.Context(), "nightly-report"); err != nil {
		t.Fatal(err)
	}
	out, err = program(first.Dir).CombinedOutput()
	if want := fmt.Sprintf(":%d", os.Getpid()); err == nil || !strings.Contains(string(out), "lock is held by ") || !strings.Contains(string(out), want) {
		t.Errorf("while this process has the lock: %q, %v, want a holder with %q", out, err, want)
	}
}

// A signal ends the work of the README's program. It exits with 0, and the lock is free at once.
func TestReadmeProgramEndsOnSignals(t *testing.T) {
	redis := server.Redis(t, server.RedisOptions{})
	store, err := redisstore.Open(t.Context(), redisstore.Config{Addrs: []string{redis.Addr()}})
	if err != nil {
		t.Fatal(err)
	}
	locker := padlock.New(store)
	defer locker.Close(context.Background())
	text := strings.NewReplacer("localhost:6379", redis.Addr(), "5 * time.Second", "time.Hour").Replace(programs(t)["README.md"][0])
	dir := buildFiles(t, []string{text}).Dir
	for _, signal := range []os.Signal{os.Interrupt, syscall.SIGTERM} {
		cmd := program(dir)
		var log bytes.Buffer
		cmd.Stderr = &log
		out, err := cmd.StdoutPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
			t.Fatal(err, log.String())
		}
		if err := errors.Join(cmd.Process.Signal(signal), cmd.Wait()); err != nil || log.Len() > 0 {
			t.Errorf("%v: %v, %q, want status 0 and no words", signal, err, log.String())
		}
		lock, err := locker.TryAcquire(t.Context(), "nightly-report")
		if err != nil {
			t.Fatalf("after %v: %v", signal, err)
		}
		if err := lock.Release(); err != nil {
			t.Fatal(err)
		}
	}
}

// The functions of docs/stores/sql.md do what the page says.
func TestTransactionProgram(t *testing.T) {
	cmd := buildFile(t, "internal/integration/pages/testdata/transaction.go.txt")
	cmd.Env = append(os.Environ(), "TMPDIR="+cmd.Dir)
	out, err := cmd.CombinedOutput()
	if want := "paid with receipt 7\ncanceled\n"; err != nil || string(out) != want {
		t.Errorf("got %q, %v, want %q", out, err, want)
	}
}

// If two programs run at once, one does the work. The other one says that it does nothing. Here the
// work lasts until the other one has ended, however slow the machine is.
func TestTwoServers(t *testing.T) {
	const work, here = "time.After(3 * time.Second)", "inputEnds()"
	texts := programs(t)["docs/first-program.md"]
	changed := strings.Replace(texts[0], work, here, 1) + `
func inputEnds() <-chan struct{} {
	ended := make(chan struct{})
	go func() { os.Stdin.Read(make([]byte, 1)); close(ended) }()
	return ended
}
`
	if !strings.Contains(changed, "<-"+here) {
		t.Fatalf("the program has no work of the form %s", work)
	}
	first := buildFiles(t, append([]string{changed}, texts[1:]...))
	second := program(first.Dir)
	var out [2]bytes.Buffer
	url, ended := redisURL(t), make(chan error, 2)
	var ends []func() error
	for i, cmd := range []*exec.Cmd{first, second} {
		cmd.Env = append(os.Environ(), "PADLOCK_STORE="+url)
		cmd.Stdout, cmd.Stderr = &out[i], &out[i]
		in, err := cmd.StdinPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		ends = append(ends, in.Close)
		go func() { ended <- cmd.Wait() }()
	}
	var err error
	left := len(ends)
	select {
	case err = <-ended:
		left--
	case <-time.After(time.Minute):
		t.Error("neither of the two gives up")
	}
	for _, end := range ends {
		_ = end() // that of a program that has ended is closed already
	}
	for range left {
		err = errors.Join(err, <-ended)
	}
	both := out[0].String() + out[1].String()
	if err != nil {
		t.Errorf("%v: %s", err, both)
	}
	if strings.Count(both, "report is done") != 1 || strings.Count(both, `the other server does it: padlock: acquire "nightly-report": lock is held by `) != 1 {
		t.Errorf("the two say:\n%s", both)
	}
}

// The test on the page passes.
func TestTestOfThePage(t *testing.T) {
	files := write(t, programs(t)["docs/first-program.md"])
	if out, err := exec.Command("go", append([]string{"test"}, files...)...).CombinedOutput(); err != nil {
		t.Errorf("go test: %v\n%s", err, out)
	}
}

// SIGTERM ends the program at once, and without an error.
func TestShutdown(t *testing.T) {
	cmd := build(t, "docs/shutdown.md")
	addr := freeAddress(t)
	cmd.Env = append(os.Environ(), "LOCKS="+filepath.Join(cmd.Dir, "locks"), "LISTEN="+addr)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	// The program serves only after it has begun to handle signals. Before that, SIGTERM would kill
	// it.
	server.Eventually(t, func() error { return answers(addr) })
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil || out.Len() > 0 {
		t.Errorf("%v: %s", err, out.String())
	}
}

// A second process waits for the lead, and is ready. It leads when the first one has ended.
func TestElectionProgram(t *testing.T) {
	first := build(t, "docs/election.md")
	second := program(first.Dir)
	url := redisURL(t)
	for i, cmd := range []*exec.Cmd{first, second} {
		addr := freeAddress(t)
		cmd.Env = append(os.Environ(), "PADLOCK_STORE="+url, "LISTEN="+addr)
		log, err := cmd.StderrPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		defer cmd.Process.Kill()
		if i == 1 {
			awaitReady(t, addr, "waits for the lead")
			if err := first.Process.Signal(syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
			if err := first.Wait(); err != nil {
				t.Errorf("the first program ends with %v", err)
			}
		}
		awaitReady(t, addr, "leads")
		if line, err := bufio.NewReader(log).ReadString('\n'); !strings.Contains(line, "leads with the fence ") {
			t.Errorf("program %d says %q, %v", i+1, line, err)
		}
	}
	if err := second.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := second.Wait(); err != nil {
		t.Errorf("the second program ends with %v", err)
	}
}

// awaitReady returns when the readiness probe at addr replies with text.
func awaitReady(t *testing.T, addr, text string) {
	t.Helper()
	server.Eventually(t, func() error {
		reply, err := http.Get("http://" + addr + "/readyz")
		if err != nil {
			return err
		}
		defer reply.Body.Close()
		if got, _ := io.ReadAll(reply.Body); reply.StatusCode != http.StatusOK || string(got) != text+"\n" {
			return fmt.Errorf("the probe at %s says %q", addr, got)
		}
		return nil
	})
}

// freeAddress is an address of this machine at which nothing listens at the moment. Kernels do not
// choose its port for connections. Its UDP port is taken until the end of the test, so that
// internal/server does not choose it either.
func freeAddress(t *testing.T) string {
	t.Helper()
	for range 200 {
		addr := fmt.Sprint("127.0.0.1:", 10_000+rand.IntN(22_000))
		held, err := net.ListenPacket("udp", addr)
		if err != nil {
			continue
		}
		t.Cleanup(func() { held.Close() })
		if l, err := net.Listen("tcp", addr); err == nil {
			l.Close()
			return addr
		}
	}
	t.Fatal("no free port")
	return ""
}

// answers returns an error unless a server accepts connections at addr.
func answers(addr string) error {
	c, err := net.Dial("tcp", addr)
	if err == nil {
		c.Close()
	}
	return err
}

// The program of docs/web.md, which has the lines of the page, shows the locks to somebody who knows
// the password, and to nobody else. A browser asks for it.
func TestWebProgram(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "examples/web-page/main.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range blocks(t, "go") {
		if b.page == "docs/web.md" && !strings.Contains(strings.ReplaceAll(string(text), "\n\t", "\n"), "\n"+b.text) {
			t.Errorf("the program does not have this text of %s:\n%s", b.page, b.text)
		}
	}
	cmd, addr := buildFile(t, "examples/web-page/main.go"), freeAddress(t)
	open := program(cmd.Dir)
	open.Env = append(os.Environ(), "LISTEN=nowhere") // a program that goes on ends there
	if out, err := open.CombinedOutput(); err == nil || !strings.Contains(string(out), "LOCKS_PASSWORD") {
		t.Errorf("without a password it says %q, %v", out, err)
	}
	cmd.Env = append(os.Environ(), "PADLOCK_STORE=file://"+filepath.Join(cmd.Dir, "locks"), "LISTEN="+addr, "LOCKS_PASSWORD=a secret")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	defer cmd.Process.Kill()
	server.Eventually(t, func() error { return answers(addr) })
	for _, c := range []struct {
		user, password string
		want           int
	}{{"", "", 401}, {"u", "p", 401}, {"ann", "", 401}, {"ann", "another", 401}, {"u", "a secret", 401}, {"ann", "a secret", 200}} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+addr+"/locks/", nil)
		if err != nil {
			t.Fatal(err)
		}
		if c.user != "" {
			r.SetBasicAuth(c.user, c.password)
		}
		reply, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		reply.Body.Close()
		if asks := reply.Header.Get("WWW-Authenticate") != ""; reply.StatusCode != c.want || asks != (c.want == 401) {
			t.Errorf("%q with %q: %d, asks for a password: %v", c.user, c.password, reply.StatusCode, asks)
		}
	}
}
