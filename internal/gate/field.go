package main

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// fieldPages have a row for each report of another system that was tried. The last column names the
// test that shows what padlock does.
var fieldPages = []string{"docs/field.md", "docs/internals/field.md"}

var lastColumn = regexp.MustCompile("`([^`:]+):(Test[^`]*)`(\\*?) \\|$")

// unshown returns the rows of a page whose test has not passed. A test with * belongs to tier 2;
// in a run of tier 1 it has to be in the source of its package.
func unshown(page []byte, passed map[test]bool, thorough bool) (rows []string) {
	head := true // of a table, and the line below it
	for line := range strings.Lines(string(page)) {
		line = strings.TrimSpace(line)
		if !strings.HasPrefix(line, "|") {
			head = true
			continue
		}
		if strings.HasPrefix(line, "|--") {
			head = false
			continue
		}
		if head {
			continue
		}
		m := lastColumn.FindStringSubmatch(line)
		if m == nil || !shows(m[1], m[2], m[3] == "*" && !thorough, passed) {
			rows = append(rows, line)
		}
	}
	return rows
}

func shows(dir, name string, inSource bool, passed map[test]bool) bool {
	if !inSource {
		return passed[test{strings.TrimSuffix(root+"/"+dir, "/."), name}]
	}
	top, _, _ := strings.Cut(name, "/")
	files, _ := filepath.Glob(filepath.Join(dir, "*_test.go")) // the pattern is right
	for _, f := range files {
		if source, err := os.ReadFile(f); err == nil && bytes.Contains(source, []byte("func "+top+"(t *testing.T)")) {
			return true
		}
	}
	return false
}
