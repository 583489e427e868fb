package web

import (
	"errors"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/padlock-go/padlock/internal/server"
)

// unitOfPage returns the unit that docs/web.md shows.
func unitOfPage(t *testing.T, name string) string {
	t.Helper()
	page, err := os.ReadFile("../../../docs/web.md")
	if err != nil {
		t.Fatal(err)
	}
	_, text, found := strings.Cut(string(page), "```ini\n# "+name+"\n")
	text, _, ended := strings.Cut(text, "```\n")
	if !found || !ended {
		t.Fatalf("docs/web.md does not show %s", name)
	}
	return text
}

// TestUnit: the service of docs/web.md starts as an unprivileged user, with secrets that only root
// may read. The test does what systemd does with LoadCredential.
func TestUnit(t *testing.T) {
	server.NeedsRoot(t) // to start a command as another user
	t.Parallel()
	const nobody = 65534
	unit := unitOfPage(t, "padlock-serve.service")
	dir, err := os.MkdirTemp("", "padlock-unit-") // t.TempDir is below a directory of root
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	secrets := map[string]string{
		"/etc/padlock/store":  "file://" + filepath.Join(dir, "locks") + "\n",
		"/etc/padlock/tokens": "ann operator-0123456789abcdef break\n",
	}
	credentials := regexp.MustCompile(`(?m)^LoadCredential=([a-z]+):(.+)$`).FindAllStringSubmatch(unit, -1)
	for _, c := range credentials {
		if err := os.WriteFile(filepath.Join(dir, c[1]), []byte(secrets[c[2]]), 0o400); err != nil || secrets[c[2]] == "" {
			t.Fatalf("%s: %v", c[0], err)
		}
		if err := os.Chown(filepath.Join(dir, c[1]), nobody, nobody); err != nil {
			t.Fatal(err)
		}
	}
	p := newPlace(t)
	binary, err := os.ReadFile(p.command().Path) // in a directory of root
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(dir, "padlock")
	if err := server.WriteProgram(program, binary); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Chown(program, nobody, nobody), os.Chown(dir, nobody, nobody)); err != nil {
		t.Fatal(err)
	}
	setting := func(name string) string {
		value := regexp.MustCompile(`(?m)^` + name + `=(.+)$`).FindStringSubmatch(unit)
		if value == nil {
			t.Fatalf("the unit has no %s", name)
		}
		return strings.ReplaceAll(value[1], "%d", dir)
	}
	args := strings.Fields(setting("ExecStart"))
	cmd := exec.Command(program, append(args[1:], "--listen", "127.0.0.1:0")...)
	cmd.Env, cmd.Dir = []string{setting("Environment")}, dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	s := p.started(cmd)
	if status, text := s.get(http.DefaultClient, "api/locks", "operator-0123456789abcdef"); status != http.StatusOK {
		t.Errorf("/api/locks: %d %s", status, text)
	}
	s.end()
}

// TestUnitsAreValid: systemd accepts the units of docs/web.md.
func TestUnitsAreValid(t *testing.T) {
	t.Parallel()
	verify, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("systemd-analyze is missing")
	}
	dir := t.TempDir()
	var files []string
	for _, name := range []string{"padlock-serve.socket", "padlock-serve.service"} {
		text := strings.ReplaceAll(unitOfPage(t, name), "/usr/local/bin/padlock", "/bin/true")
		files = append(files, filepath.Join(dir, name))
		if err := os.WriteFile(files[len(files)-1], []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if out, err := exec.Command(verify, append([]string{"verify"}, files...)...).CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("%v: %s", err, out)
	}
}
