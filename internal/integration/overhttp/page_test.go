package overhttp

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/observe/padlockapi"
	"github.com/padlock-go/padlock/stores/memstore"
)

// The programs of docs/any-language.md, and how they run.
var programs = map[string][]string{
	"lock.py":   {"python3"},
	"lock.mjs":  {"node"},
	"lock.php":  {"php", "-n"},
	"Lock.java": {"java"}, // with a JDK, java also compiles
}

// needed are other commands that a program needs.
var needed = map[string]string{"Lock.java": "javac"}

var fileBlock = regexp.MustCompile("(?s)<!-- file: (\\S+) -->\n```\\w+\n(.*?)```\n")

// fileLink is a link of the page to a program.
var fileLink = regexp.MustCompile(`\(\.\./(examples/any-language/[^)]+)\)`)

// repeats are the programs whose client asks again after a lock that came too late.
var repeats = map[string]bool{"lock.py": true, "lock.mjs": true}

// TestAnyLanguage runs each program of the page: while the name is free, while another client has
// it, while the answers to the first request of each kind are lost, and while the first answer is
// late.
func TestAnyLanguage(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../../docs/any-language.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := fileBlock.FindAllStringSubmatch(string(text), -1)
	for _, link := range fileLink.FindAllStringSubmatch(string(text), -1) {
		program, err := os.ReadFile("../../../" + link[1])
		if err != nil {
			t.Fatal(err)
		}
		blocks = append(blocks, []string{"", filepath.Base(link[1]), string(program)})
	}
	for _, block := range blocks {
		t.Run(block[1], func(t *testing.T) {
			t.Parallel()
			p := newProgram(t, block[1], block[2])
			p.run(t, "free", p.api, `^work with fence \d+\n$`)
			p.run(t, "lost answers", losing(p.api), `^work with fence \d+\n$`)
			none := `^(no lock: .*\n)?$`
			if repeats[p.name] {
				none = `^work with fence \d+\n$`
			}
			p.run(t, "late lock", late(p.api, http.StatusOK), none)
			p.run(t, "late 503", late(p.api, http.StatusServiceUnavailable), `^work with fence \d+\n$`)
			p.hold(t)
			var asked atomic.Int32
			p.run(t, "held", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/v1/acquire" {
					asked.Add(1)
				}
				p.api.ServeHTTP(w, r)
			}), `^somebody else has it\n$`)
			if n := asked.Load(); n != 1 && !repeats[p.name] {
				t.Errorf("held: it waits %d times", n)
			}
		})
	}
	if len(blocks) != len(programs) {
		t.Errorf("the page has %d programs, and %d are known", len(blocks), len(programs))
	}
}

// A program is one of the page, and the server that it uses.
type program struct {
	command []string
	name    string
	text    string
	store   driver.Store
	api     http.Handler
	others  int // locks of others
}

func newProgram(t *testing.T, name, text string) *program {
	t.Helper()
	command := programs[name]
	if command == nil {
		t.Fatalf("the page has the program %s, which no test runs", name)
	}
	for _, c := range []string{command[0], needed[name]} {
		if _, err := exec.LookPath(c); c != "" && err != nil {
			if os.Getenv("CI") == "true" {
				t.Fatal(err)
			}
			t.Skip(err)
		}
	}
	store := memstore.New()
	api := padlockapi.Handler(store, padlockapi.WithoutToken())
	t.Cleanup(func() {
		if err := api.Close(); err != nil {
			t.Error(err)
		}
	})
	return &program{command: command, name: name, text: text, store: store, api: api}
}

// hold makes another client have the name.
func (p *program) hold(t *testing.T) {
	t.Helper()
	if _, err := p.store.Acquire(t.Context(), driver.Request{Name: "invoice:42", Token: driver.TokenOf("another-client-0123"), TTL: 50 * time.Second}); err != nil {
		t.Fatal(err)
	}
	p.others = 1
	// The program need not wait for so long.
	p.text = regexp.MustCompile(`(wait_ms\D{1,6}|waitMs: )20_?000`).ReplaceAllString(p.text, "${1}50")
	p.text = strings.ReplaceAll(p.text, "wait=20", "wait=0.05")
}

// run runs the program against a server. Afterwards the program must have released its lock.
func (p *program) run(t *testing.T, what string, handler http.Handler, want string) {
	t.Helper()
	web := httptest.NewServer(handler)
	defer web.Close()
	dir := t.TempDir()
	file := filepath.Join(dir, p.name)
	if err := os.WriteFile(file, []byte(strings.ReplaceAll(p.text, "http://127.0.0.1:7925", web.URL)), 0o600); err != nil {
		t.Fatal(err)
	}
	clients, err := filepath.Abs("../../../clients")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "node_modules"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(clients, "node"), filepath.Join(dir, "node_modules", "padlock-client")); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, p.command[0], append(p.command[1:len(p.command):len(p.command)], file)...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "TMPDIR="+t.TempDir(), "PYTHONPATH="+filepath.Join(clients, "python", "src"), "PYTHONDONTWRITEBYTECODE=1")
	var said strings.Builder
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil || !regexp.MustCompile(want).Match(out) {
		t.Errorf("%s: it says %q, want %s: %v: %s", what, out, want, err, &said)
	}
	if err := p.left(ctx); err != nil {
		t.Errorf("%s: %v", what, err)
	}
}

// left returns an error if the program has left a lock behind.
func (p *program) left(ctx context.Context) error {
	admin, ok := driver.As[driver.Admin](p.store)
	if !ok {
		return fmt.Errorf("the store cannot tell")
	}
	state, err := admin.Inspect(ctx, "invoice:42")
	if err == nil && len(state.Holds) != p.others {
		return fmt.Errorf("the lock is not released: %+v", state.Holds)
	}
	return err
}

// losing carries every request out, and loses the answers to the first acquire and to the first
// release.
func losing(h http.Handler) http.Handler {
	var acquires, releases atomic.Int32
	count := map[string]*atomic.Int32{"/v1/acquire": &acquires, "/v1/release": &releases}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if n := count[r.URL.Path]; n != nil && n.Add(1) == 1 {
			h.ServeHTTP(httptest.NewRecorder(), r)
			panic(http.ErrAbortHandler)
		}
		h.ServeHTTP(w, r)
	})
}

// late gives locks that can be used for 6 seconds, and keeps the first answer to an acquire back
// for longer than that. With another status than 200, this answer is an error, and takes no lock.
func late(h http.Handler, status int) http.Handler {
	const valid = 6 * time.Second
	var acquires atomic.Int32
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/v1/acquire" {
			h.ServeHTTP(w, r)
			return
		}
		first := acquires.Add(1) == 1
		answer := httptest.NewRecorder()
		if first && status != http.StatusOK {
			answer.Code = status
			answer.Body.WriteString("{}")
		} else {
			h.ServeHTTP(answer, r)
		}
		if first {
			<-time.After(valid + 100*time.Millisecond)
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(answer.Code)
		text := validMS.ReplaceAllString(answer.Body.String(), fmt.Sprintf(`"valid_ms":%d`, valid.Milliseconds()))
		_, _ = w.Write([]byte(text)) // the program says what it misses
	})
}

var validMS = regexp.MustCompile(`"valid_ms":\d+`)
