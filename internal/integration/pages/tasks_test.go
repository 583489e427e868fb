package pages

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// The functions of docs/tasks.md do what the page says if a lock is lost in the middle. The test of
// them is a file of its own, because it is compiled together with the blocks of the page.
func TestTasks(t *testing.T) {
	files := write(t, programs(t)["docs/tasks.md"])
	text, err := os.ReadFile("testdata/tasks.go.txt")
	if err != nil {
		t.Fatal(err)
	}
	test := filepath.Join(filepath.Dir(files[0]), "main_test.go")
	if err := os.WriteFile(test, text, 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("go", append([]string{"test"}, append(files, test)...)...).CombinedOutput(); err != nil {
		t.Errorf("go test: %v\n%s", err, out)
	}
}
