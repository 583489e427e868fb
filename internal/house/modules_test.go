package house

import (
	"fmt"
	"go/version"
	"path"
	"regexp"
	"slices"
	"strings"
)

// A goMod is the part of a go.mod or go.work that the tests need.
type goMod struct {
	dir      string
	goLine   string   // "go1.25"
	requires []string // paths
	replaces []string // paths of padlock's modules
	uses     []string // directories; only a go.work has them
}

var (
	modVerb = regexp.MustCompile(`^(require|replace|use)\s+(.*)$`)
	modGo   = regexp.MustCompile(`^go\s+(\S+)`)
)

// parseMod reads the lines of a go.mod, blocks in parentheses included.
func parseMod(dir, text string) goMod {
	m := goMod{dir: dir}
	block := ""
	for _, line := range strings.Split(text, "\n") {
		line, _, _ = strings.Cut(line, "//")
		line = strings.TrimSpace(line)
		if g := modGo.FindStringSubmatch(line); g != nil {
			m.goLine = "go" + g[1]
			continue
		}
		verb, rest := block, line
		if v := modVerb.FindStringSubmatch(line); v != nil {
			verb, rest = v[1], v[2]
		}
		switch rest {
		case "(":
			block = verb
		case ")":
			block = ""
		case "":
		default:
			m.add(verb, strings.Fields(rest)[0])
		}
	}
	return m
}

func (m *goMod) add(verb, what string) {
	switch verb {
	case "require":
		m.requires = append(m.requires, what)
	case "replace":
		m.replaces = append(m.replaces, what)
	case "use":
		m.uses = append(m.uses, path.Clean(what))
	}
}

// ownModules selects the paths of padlock's modules, and returns the directories of these modules.
func ownModules(paths []string) []string {
	var dirs []string
	for _, p := range paths {
		if p == padlockPath {
			dirs = append(dirs, ".")
		} else if dir, ok := strings.CutPrefix(p, padlockPath+"/"); ok {
			dirs = append(dirs, dir)
		}
	}
	return dirs
}

// checkMods compares all go.mod files with each other, with go.work, with modules.txt and with the
// Go that is installed.
func checkMods(mods []goMod, work goMod, listed []string, installed string) []string {
	var found []string
	say := func(format string, args ...any) { found = append(found, fmt.Sprintf(format, args...)) }
	for _, m := range mods {
		file := path.Join(m.dir, "go.mod")
		if version.Compare(m.goLine, installed) > 0 {
			say("%s: its go line %s is newer than the installed %s: nobody could build it here", file, m.goLine, installed)
		}
		if !slices.Contains(listed, m.dir) {
			say("%s: modules.txt does not list its directory: make and the release would pass over it", file)
		}
		if m.dir == "." {
			found = append(found, checkRootMod(m, work)...)
			continue
		}
		if !slices.Contains(work.uses, m.dir) {
			say("%s: go.work does not use its directory", file)
		}
		found = append(found, checkOwnRequires(m, listed)...)
	}
	for _, dir := range listed {
		if !slices.ContainsFunc(mods, func(m goMod) bool { return m.dir == dir }) {
			say("modules.txt: %s has no go.mod", dir)
		}
	}
	return found
}

func checkRootMod(m, work goMod) []string {
	var found []string
	if len(m.requires) > 0 {
		found = append(found, fmt.Sprintf("go.mod: requires %s: the root requires nothing, tests included, so that `go get` of padlock brings padlock and nothing else", list(m.requires)))
	}
	if version.Compare(version.Lang(m.goLine), version.Lang(work.goLine)) >= 0 {
		found = append(found, fmt.Sprintf("go.mod: its go line %s is not older than go.work's %s: the root serves one release more than the newest", m.goLine, work.goLine))
	}
	return found
}

// checkOwnRequires checks the modules of padlock that another one requires.
func checkOwnRequires(m goMod, listed []string) []string {
	var found []string
	for _, dir := range ownModules(m.requires) {
		if slices.Index(listed, dir) > slices.Index(listed, m.dir) {
			found = append(found, fmt.Sprintf("modules.txt: %s stands before %s, which it requires: a release tags in this order", m.dir, dir))
		}
		if !slices.Contains(ownModules(m.replaces), dir) {
			found = append(found, fmt.Sprintf("%s: requires %s without a replace line: it would not build alone (GOWORK=off) before the release", path.Join(m.dir, "go.mod"), dir))
		}
	}
	return found
}

// parseModules reads modules.txt: each line that is no comment has a directory and says whether it
// is released.
func parseModules(text string) (dirs []string, complaints []string) {
	for i, line := range strings.Split(text, "\n") {
		fields := strings.Fields(line)
		if len(fields) == 0 || strings.HasPrefix(line, "#") {
			continue
		}
		dirs = append(dirs, fields[0])
		if len(fields) != 2 || fields[1] != "yes" && fields[1] != "never" {
			complaints = append(complaints, fmt.Sprintf("modules.txt:%d: want a directory and yes or never", i+1))
		}
	}
	return dirs, complaints
}
