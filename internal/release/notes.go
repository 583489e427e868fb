package main

import (
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
)

// released matches the version of a release. Other versions, such as v1.2.3-rc1 or a commit, have
// the notes of the next release.
var released = regexp.MustCompile(`^v?(\d+\.\d+\.\d+)$`)

// notes cuts the part of a version out of the CHANGELOG. Its links become addresses of that
// version, since notes are read outside of the tree.
func (j *job) notes(w io.Writer) error {
	page, err := os.ReadFile(j.args[0])
	if err != nil {
		return err
	}
	section := "Unreleased"
	if m := released.FindStringSubmatch(j.version); m != nil {
		section = m[1]
	}
	part, ok := cut(string(page), section)
	if !ok {
		return fmt.Errorf("%s has no section \"## %s\": before a release, rename \"## Unreleased\"", j.args[0], section)
	}
	_, err = io.WriteString(w, absolute(part, j.version))
	return err
}

// cut returns the text between the heading of a section and the next one.
func cut(page, section string) (string, bool) {
	var part []string
	in := false
	for line := range strings.Lines(page) {
		if title, ok := strings.CutPrefix(line, "## "); ok {
			if in {
				break
			}
			name, _, _ := strings.Cut(strings.Trim(strings.TrimSpace(title), "[]"), " ")
			in = strings.Trim(name, "[]") == section
			continue
		}
		if in {
			part = append(part, line)
		}
	}
	return strings.TrimSpace(strings.Join(part, "")) + "\n", len(part) > 0
}

var relative = regexp.MustCompile(`\]\(([^)#:]+)((?:#[^)]*)?)\)`)

// absolute turns links to pages of the tree into addresses.
func absolute(text, version string) string {
	return relative.ReplaceAllString(text, "]("+home+"/blob/"+version+"/$1$2)")
}
