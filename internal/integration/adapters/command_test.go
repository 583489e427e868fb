package adapters

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// TestPagesOfTheCommand runs the lines of pages with the command of the tree.
func TestPagesOfTheCommand(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	build := exec.Command("go", "build", "-o", dir+"/", ".", "./padlock-all") // SQLite is in the second
	build.Dir = "../../../cmd/padlock"                                        // a module that this one does not require
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	t.Run("deploy jobs", func(t *testing.T) {
		eachStore(t, func(t *testing.T, url, _ string) { deployJobs(t, dir, url) })
	})
	t.Run("agents", func(t *testing.T) { agents(t, dir) })
	t.Run("four agents", func(t *testing.T) { fourAgents(t, dir) })
}

// page returns a page of docs.
func page(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("../../../docs", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
