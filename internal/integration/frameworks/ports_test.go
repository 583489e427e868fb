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
	"regexp"
	"strings"
	"sync"
	"testing"
)

// changes are the programs that the changes make of the programs in ports.
var changes = []struct{ of, made string }{
	{"gorilla", "gorilla-store"},
	{"gorilla", "gorilla-session"},
	{"scs", "scs-session"},
}

// most is how many lines of a program may change, old and new ones counted apart.
const most = 20

var diff = regexp.MustCompile("(?s)```diff\n(.*?)```\n")

// pageChanges returns the changes, as "diff -U 1" writes them. The first is on the page, which links
// the others.
func pageChanges() (all []string, err error) {
	page, err := os.ReadFile("../../../docs/moving-sessions.md")
	m := diff.FindSubmatch(page)
	if err != nil || m == nil {
		return nil, fmt.Errorf("the page has no change: %w", err)
	}
	all = append(all, string(m[1]))
	for _, c := range changes[1:] {
		text, err := os.ReadFile("ports/" + c.made + ".diff")
		if err != nil {
			return nil, err
		}
		all = append(all, string(text))
	}
	return all, nil
}

// TestFewLinesChange: each change on the page is small.
func TestFewLinesChange(t *testing.T) {
	t.Parallel()
	all, err := pageChanges()
	noError(t, err)
	for i, text := range all {
		if out, in := strings.Count(text, "\n-"), strings.Count(text, "\n+"); max(out, in) > most || in == 0 {
			t.Errorf("%s: %d lines are replaced by %d, and at most %d may be", changes[i].made, out, in, most)
		}
	}
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
	texts, err := pageChanges()
	if err != nil {
		return err
	}
	for _, name := range []string{"gorilla", "scs"} {
		if err := run(".", "", "go", "build", "-o", filepath.Join(portsDir, name), "./ports/"+name); err != nil {
			return err
		}
	}
	for i, c := range changes {
		dir := filepath.Join(portsDir, "source", c.made)
		program, err := os.ReadFile("ports/" + c.of + "/main.go")
		err = errors.Join(err, os.MkdirAll(dir, 0o700), os.WriteFile(dir+"/main.go", program, 0o600))
		if err == nil {
			err = run(dir, "--- a/main.go\n+++ b/main.go\n"+texts[i], "git", "apply")
		}
		if err == nil {
			err = run(".", "", "go", "build", "-o", filepath.Join(portsDir, c.made), dir+"/main.go")
		}
		if err != nil {
			return fmt.Errorf("%s: %w", c.made, err)
		}
	}
	return nil
})

// run runs a command in a directory, with a text as its input.
func run(dir, input, name string, args ...string) error {
	cmd := exec.Command(name, args...)
	cmd.Dir, cmd.Stdin = dir, strings.NewReader(input)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", name, err, out)
	}
	return nil
}

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
	for _, name := range []string{"scs", "scs-session", "gorilla", "gorilla-store", "gorilla-session"} {
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
	for _, name := range []string{"scs-session", "gorilla-store", "gorilla-session"} {
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
