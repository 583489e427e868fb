package all_test

import (
	"os/exec"
	"strings"
	"testing"
)

// A program with Redis alone links the client of Redis, and no module of another project besides
// it.
func TestRedisAloneLinksOneClient(t *testing.T) {
	const ours = "github.com/padlock-go/padlock"
	cmd := exec.Command("go", "list", "-deps", "-f", "{{if not .Standard}}{{.ImportPath}}{{end}}", ours+"/open", ours+"/stores/redisstore")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	client := false
	for _, pkg := range strings.Fields(string(out)) {
		client = client || strings.HasPrefix(pkg, "github.com/redis/rueidis")
		for _, allowed := range []string{ours, "github.com/redis/rueidis", "golang.org/x/sys"} {
			if strings.HasPrefix(pkg, allowed) {
				pkg = ""
			}
		}
		if pkg != "" {
			t.Errorf("a program with Redis alone links %s", pkg)
		}
	}
	if !client {
		t.Error("the client of Redis is not among the packages: the list says nothing")
	}
	if out, err = exec.Command("go", "list", "-deps", ours+"/open").Output(); err != nil || strings.Contains(string(out), "rueidis") {
		t.Errorf("package open links the client of Redis, %v", err)
	}
}
