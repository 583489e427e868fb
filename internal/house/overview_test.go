package house

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestOverviews checks the first screen of the documentation of each public package: the first
// sentence says what the package is, and the reader finds when to use it and when not.
func TestOverviews(t *testing.T) { report(t, checkOverviews(readHouse(t))) }

// firstScreen is how many lines of a package comment the screen of a terminal shows.
const firstScreen = 30

var (
	whatItIs   = regexp.MustCompile(`^Package (\S+) [a-z]+s [^.]*[.:]`) // a verb: is, has, keeps, …
	whenToUse  = regexp.MustCompile(`\bUse it\b|\b[Ii]t is for\b`)
	whenNotTo  = regexp.MustCompile(`\binstead\b|\bdo(es)? not need (it|them)\b|\bneeds only\b`)
	emptyLines = regexp.MustCompile(`\n\n+`)
)

func checkOverviews(files []*houseFile) []string {
	var found []string
	for _, f := range files {
		if !public(f) || f.ast.Doc == nil {
			continue
		}
		say := func(what string) {
			found = append(found, fmt.Sprintf("%s: the comment of package %s %s", f.position(f.ast.Package), f.pkg(), what))
		}
		text := f.ast.Doc.Text()
		first := oneLine(emptyLines.Split(text, 2)[0])
		if m := whatItIs.FindStringSubmatch(first); m == nil || m[1] != f.ast.Name.Name {
			say(`does not begin with what the package is: "Package x keeps …"`)
		}
		lines := strings.Split(text, "\n")
		screen := oneLine(strings.Join(lines[:min(len(lines), firstScreen)], "\n"))
		if !whenToUse.MatchString(screen) {
			say(fmt.Sprintf(`does not say in its first %d lines when to use it: "Use it if …", "It is for …"`, firstScreen))
		}
		if !whenNotTo.MatchString(screen) {
			say(fmt.Sprintf(`does not say in its first %d lines when not to use it: "If …, use package y instead", "Programs that use locks do not need it"`, firstScreen))
		}
	}
	slices.Sort(found)
	return found
}

func TestOverviewsBite(t *testing.T) {
	const use, not = "Use it if you have a clock. ", "If not, use package b instead."
	for _, b := range []struct{ path, comment, want string }{
		{"a/a.go", "Package a keeps the time. " + use + not, ""},
		{"a/a.go", "Package a keeps the time. " + use, "when not to use it"},
		{"a/a.go", "Package a keeps the time. " + not, "when to use it"},
		{"a/a.go", "This keeps the time. " + use + not, "what the package is"},
		{"a/a.go", "Package b keeps the time. " + use + not, "what the package is"},
		{"a/a.go", "Package a keeps the time.\n" + strings.Repeat("\n", firstScreen) + use + not, ""},
		{"internal/a.go", "A.", ""},
	} {
		name := strings.TrimSuffix(path.Base(b.path), ".go")
		f, err := parseHouse(b.path, ".", []byte("// "+strings.ReplaceAll(b.comment, "\n", "\n//\n// x\n// ")+"\npackage "+name+"\n"))
		if err != nil {
			t.Fatal(err)
		}
		found := checkOverviews([]*houseFile{f})
		if late := strings.Contains(b.comment, "\n"); late && len(found) != 2 {
			t.Errorf("%q: %q, want two messages", b.comment, found)
		} else if !late {
			expect(t, found, b.want)
		}
	}
}
