package frameworks

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// A port is a program before and after it moved to padlock.
type port struct{ before, after string }

var ports = []port{
	{"gorilla/before", "gorilla/store"},
	{"gorilla/before", "gorilla/after"},
	{"scs/before", "scs/after"},
}

// most is how many lines of a program may change in a port, old and new ones counted apart.
const most = 20

// TestPageHasThePorts: the page shows what has changed in each program, and it is not much.
func TestPageHasThePorts(t *testing.T) {
	t.Parallel()
	page := readPage(t, "moving-sessions.md")
	for _, p := range ports {
		text := difference(t, p)
		if !strings.Contains(page, "```diff\n"+text+"```\n") {
			t.Errorf("the page does not have the difference of %s and %s:\n%s", p.before, p.after, text)
		}
		old, new := 0, 0
		for line := range strings.Lines(text) {
			switch line[0] {
			case '-':
				old++
			case '+':
				new++
			}
		}
		if max(old, new) > most || new == 0 {
			t.Errorf("%s: %d lines are replaced by %d, and at most %d may be", p.after, old, new, most)
		}
	}
}

// difference returns what "diff -U 1" says about the two programs, without the names of the files.
func difference(t *testing.T, p port) string {
	t.Helper()
	out, err := exec.Command("diff", "-U", "1", "ports/"+p.before+"/main.go", "ports/"+p.after+"/main.go").Output()
	var status *exec.ExitError
	if !errors.As(err, &status) || status.ExitCode() != 1 {
		t.Fatalf("diff: %v", err) // 1: there are differences
	}
	_, text, _ := strings.Cut(string(out), "\n@@")
	return "@@" + text
}

func readPage(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", name))
	noError(t, err)
	return string(text)
}

// portsDir is where the programs are, once buildPorts has run.
var portsDir string

var buildPorts = sync.OnceValue(func() (err error) {
	if portsDir, err = os.MkdirTemp("", "padlock-ports-"); err != nil {
		return err
	}
	for _, name := range []string{"scs/before", "scs/after", "gorilla/before", "gorilla/store", "gorilla/after"} {
		if out, err := exec.Command("go", "build", "-o", filepath.Join(portsDir, name), "./ports/"+name).CombinedOutput(); err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
	}
	return nil
})

// start runs a program. Its first line is its address.
func start(t *testing.T, name string) *browser {
	t.Helper()
	noError(t, buildPorts())
	cmd := exec.Command(filepath.Join(portsDir, name))
	cmd.Stderr = os.Stderr
	cmd.Env = append(os.Environ(), "SESSION_KEY="+strings.Repeat("k", 32), "TMPDIR="+t.TempDir())
	out, err := cmd.StdoutPipe()
	noError(t, err)
	noError(t, cmd.Start())
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	noError(t, err)
	jar, err := cookiejar.New(nil)
	noError(t, err)
	return &browser{t, strings.TrimSpace(line), &http.Client{Jar: jar}}
}

// get returns a page.
func (b *browser) get(path string) string {
	b.t.Helper()
	res, err := b.Get(b.url + path)
	noError(b.t, err)
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	noError(b.t, err)
	if res.StatusCode != http.StatusOK {
		b.t.Errorf("%s: %s", path, res.Status)
	}
	return string(body)
}

// sees reports an error if the page lacks a text, or has one that it should not have.
func (b *browser) sees(path, want, not string) {
	b.t.Helper()
	if text := b.get(path); !strings.Contains(text, want) || not != "" && strings.Contains(text, not) {
		b.t.Errorf("%s shows %q, want %q, not %q", path, text, want, not)
	}
}

// TestPortsDoTheSame: each program does for one visitor what it did before.
func TestPortsDoTheSame(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"scs/before", "scs/after", "gorilla/before", "gorilla/store", "gorilla/after"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := start(t, name)
			b.sees("/", "Hello .", "logged in")
			b.must("/login", url.Values{"user": {"Bo"}})
			b.sees("/", "Hello Bo.", "")
			b.must("/note", url.Values{"title": {"milk"}, "text": {"two bottles"}})
			b.sees("/?title=milk", "two bottles", "You are logged in.") // the notice was shown before
			b.must("/logout", nil)
			b.sees("/?title=milk", "Hello .", "bottles")
			b.must("/login", url.Values{"user": {"Cy"}})
			b.sees("/", "Hello Cy.", "Bo")
			b.sees("/", "Hello Cy.", "You are logged in.")
		})
	}
}

// TestPortsLoseNothing: after the port, no note of a crowd is lost.
func TestPortsLoseNothing(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"scs/after", "gorilla/store", "gorilla/after"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := start(t, name)
			b.must("/login", url.Values{"user": {"Bo"}})
			const n = 30
			b.crowd(n, func(i int) string { return fmt.Sprintf("/note?title=%d", i) })
			for i := range n {
				b.sees(fmt.Sprintf("/?title=%d", i), fmt.Sprintf("\n%d\n", i), "")
			}
		})
	}
}
