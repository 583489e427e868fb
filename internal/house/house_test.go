package house

import (
	"go/version"
	"os"
	"path"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// TestHouse checks the rules that CONTRIBUTING.md lists. Each message names the rule and its
// reason. TestHouseRulesBite shows that each check can fail.
func TestHouse(t *testing.T) {
	files := readHouse(t)
	for name, check := range map[string]func(*houseFile) []string{
		"arrows":           checkArrows,
		"no sleep":         checkSleep,
		"safety":           checkSafety,
		"short functions":  checkFuncLength,
		"short files":      checkFileLength,
		"documented":       checkDocs,
		"no machine paths": checkMachine,
		"whole tables":     checkTables,
	} {
		t.Run(name, func(t *testing.T) {
			for _, f := range files {
				report(t, check(f))
			}
		})
	}
	t.Run("packages documented", func(t *testing.T) { report(t, checkPackageDocs(files)) })
	t.Run("modules", func(t *testing.T) { report(t, checkModules(t, files)) })
	t.Run("guests", func(t *testing.T) { report(t, checkGuests(files, guests)) })
	t.Run("figures", func(t *testing.T) {
		t.Log("functions of the code:  " + figures(files, false))
		t.Log("functions of the tests: " + figures(files, true))
	})
}

func report(t *testing.T, violations []string) {
	t.Helper()
	slices.Sort(violations)
	for _, v := range violations {
		t.Error(v)
	}
}

// checkModules reads the module files of the tree and checks them together.
func checkModules(t *testing.T, files []*houseFile) []string {
	t.Helper()
	var mods []goMod
	for _, f := range files {
		// The module of a test server has versions of its own, so the workspace cannot use it.
		if path.Base(f.path) == "go.mod" && !strings.Contains(f.path, "/testdata/") {
			mods = append(mods, parseMod(f.pkg(), string(f.src)))
		}
	}
	listed, complaints := parseModules(readText(t, "modules.txt"))
	work := parseMod(".", readText(t, "go.work"))
	return append(complaints, checkMods(mods, work, listed, goVersion())...)
}

var needNewerGo = regexp.MustCompile(`(?s)\*\*Go\*\*\n\n- (.*?) need Go (\S+),`)

// TestNewerGo compares the modules that need a newer Go than the library by the CHANGELOG with
// their go.mod files.
func TestNewerGo(t *testing.T) {
	readHouse(t)
	said := needNewerGo.FindStringSubmatch(readText(t, "CHANGELOG.md"))
	if said == nil {
		t.Fatal("CHANGELOG.md does not say which modules need a newer Go")
	}
	lang := func(dir string) string {
		return version.Lang(parseMod(dir, readText(t, path.Join(dir, "go.mod"))).goLine)
	}
	var newer []string
	for line := range strings.Lines(readText(t, "modules.txt")) {
		if fields := strings.Fields(line); len(fields) == 2 && fields[1] == "yes" && lang(fields[0]) != lang(".") {
			newer = append(newer, "`"+fields[0]+"`")
			if lang(fields[0]) != "go"+said[2] {
				t.Errorf("%s needs %s, and by CHANGELOG.md %s", fields[0], lang(fields[0]), said[2])
			}
		}
	}
	named := spans.FindAllString(said[1], -1)
	slices.Sort(named)
	slices.Sort(newer)
	if !slices.Equal(named, newer) {
		t.Errorf("CHANGELOG.md says that %s need a newer Go than the library; by their go.mod files %s do", list(named), list(newer))
	}
}

func readText(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// goVersion returns the version of the installed Go, without a suffix that a vendor added
// ("go1.26.8 X:…").
func goVersion() string {
	v, _, _ := strings.Cut(runtime.Version(), " ")
	return v
}

// figures describes the lengths of functions, in lines. The aim is p50 ≤ 8 and p90 ≤ 25.
func figures(files []*houseFile, tests bool) string {
	var lengths []int
	for _, f := range files {
		if f.ast == nil || f.test() != tests {
			continue
		}
		for _, n := range funcLengths(f) {
			lengths = append(lengths, n)
		}
	}
	if len(lengths) == 0 {
		return "none"
	}
	slices.Sort(lengths)
	at := func(percent int) string { return itoa(lengths[(len(lengths)-1)*percent/100]) }
	return itoa(len(lengths)) + ", p50 " + at(50) + ", p90 " + at(90) + ", longest " + at(100) + " lines"
}
