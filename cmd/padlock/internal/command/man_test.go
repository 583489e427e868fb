package command

import (
	"bytes"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// The manual page has everything that the command knows: each verb, each flag with its letter and
// value, each exit status and variable.
func TestManPageTellsAllVerbsAndFlags(t *testing.T) {
	root := (&app{program: whole()}).root()
	root.InitDefaultCompletionCmd()
	text := plainMan(t, root)
	names := 0
	for _, verb := range root.Commands() {
		if !verb.IsAvailableCommand() || verb.Name() == "help" {
			continue
		}
		section := text[strings.Index(text, "\n.SS \""+verb.CommandPath())+1:]
		if section == text {
			t.Errorf("%s has no section", verb.Name())
		}
		if end := strings.Index(section, "\n.S"); end >= 0 {
			section = section[:end]
		}
		verb.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) {
			if f.Name == "help" || f.Hidden {
				return
			}
			names++
			value, _ := pflag.UnquoteUsage(f)
			if !strings.Contains(section, "--"+f.Name) || f.NoOptDefVal == "" && !strings.Contains(section, value) {
				t.Errorf("%s --%s is not told", verb.Name(), f.Name)
			}
		})
	}
	if names < 20 {
		t.Errorf("only %d flags were looked for", names)
	}
	for name := range ownVariables {
		if !strings.Contains(text, name) {
			t.Errorf("the variable %s is not told", name)
		}
	}
}

func TestRoffIsEscaped(t *testing.T) {
	var p page
	p.line(`.a\b-c`)
	p.line("'d")
	p.macro("B", `say "-x"`)
	if want := "\\&.a\\eb\\-c\n\\&'d\n.B \"say \\(dq\\-x\\(dq\"\n"; p.String() != want {
		t.Errorf("got %q, want %q", p.String(), want)
	}
}

// plainMan is the page without roff's escapes.
func plainMan(t *testing.T, root *cobra.Command) string {
	t.Helper()
	text := manPage(root, "v1.2.0")
	for line := range strings.Lines(text) {
		if regexp.MustCompile(`^\.[^A-Za-z]|\\[^\-e&(]`).MatchString(line) {
			t.Errorf("roff would obey this line, or lose of it: %s", line)
		}
	}
	return strings.NewReplacer(`\-`, "-", `\e`, `\`, `\&`, "", `\(dq`, `"`).Replace(text)
}

// The program that formats manual pages reports no errors.
func TestManPageIsWellFormed(t *testing.T) {
	mandoc, err := exec.LookPath("mandoc")
	if err != nil {
		missing(t, "mandoc")
	}
	cmd := exec.Command(mandoc, "-T", "lint", "-W", "warning")
	cmd.Stdin = strings.NewReader(manPage((&app{program: whole()}).root(), "v1.2.0"))
	said, err := cmd.CombinedOutput()
	for line := range bytes.Lines(said) {
		if !bytes.Contains(line, []byte("missing date")) { // the page is the same whenever it is made
			t.Errorf("%s", line)
		}
	}
	if err != nil && len(said) == 0 {
		t.Error(err)
	}
}
