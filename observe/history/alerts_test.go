package history_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// promtool runs the tool of Prometheus in the directory of the alert rules.
func promtool(t *testing.T, input string, args ...string) {
	t.Helper()
	path, err := exec.LookPath("promtool")
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal("promtool is missing; it is in Debian's package prometheus")
		}
		t.Skip("promtool is missing; it is in Debian's package prometheus")
	}
	cmd := exec.Command(path, args...)
	cmd.Dir, cmd.Stdin = "../../docs/alerts", strings.NewReader(input)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// The alert rules are valid, and they fire when they should and not earlier.
func TestAlertRules(t *testing.T) {
	t.Parallel()
	promtool(t, "", "check", "rules", "padlock.rules.yml")
	promtool(t, "", "test", "rules", "padlock.rules.test.yml")
}

// Each figure in the alert rules exists: a rule about a figure that nothing writes never fires.
func TestFiguresOfAlertRulesExist(t *testing.T) {
	t.Parallel()
	rules, err := os.ReadFile("../../docs/alerts/padlock.rules.yml")
	if err != nil {
		t.Fatal(err)
	}
	var sources strings.Builder
	for _, dir := range []string{".", "../metrics", "../padlockweb"} {
		files, _ := filepath.Glob(dir + "/*.go")
		for _, name := range files {
			if text, err := os.ReadFile(name); err == nil && !strings.HasSuffix(name, "_test.go") {
				sources.Write(text)
			}
		}
	}
	known := map[string]bool{}
	for _, name := range regexp.MustCompile(`padlock_[a-z_]+`).FindAllString(string(rules), -1) {
		name = strings.TrimSuffix(name, "_count")
		if known[name] = true; !strings.Contains(sources.String(), `"`+name+`"`) {
			t.Errorf("there is no figure %s", name)
		}
	}
	if len(known) != 6 {
		t.Errorf("the rules have the figures %v", known)
	}
}
