package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/padlock-go/padlock/internal/server"
)

// A mistake in a file or test for one system is found for that system, and for no other.
func TestCheck(t *testing.T) {
	server.Thorough(t)
	t.Setenv("GOWORK", "off")
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":             "module example.org/m\n\ngo 1.26\n",
		"m.go":               "package m\n\nimport \"os\"\n\nvar File *os.File\n",
		"m_windows.go":       "package m\n\nimport \"syscall\"\n\nfunc kill() error { return syscall.Kill(1, 0) }\n",
		"m_test.go":          "package m\n\nfunc Help() {}\n",
		"out_test.go":        "package m_test\n\nimport \"example.org/m\"\n\nvar _ = m.Help\n",
		"mac_darwin_test.go": "package m\n\nvar unused = func() { x := 1 }\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for system, want := range map[string]string{"windows": "undefined: syscall.Kill", "darwin": "declared and not used: x", "freebsd": ""} {
		err := check(dir, system, []string{"./..."})
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", system, err, want)
		}
	}
	if err := check(dir, "freebsd", []string{"./nowhere"}); err == nil {
		t.Error("a package that does not exist was checked")
	}
}
