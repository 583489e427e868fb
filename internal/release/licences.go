package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

const ruleLine = "================================================================================"

// A listed package is what `go list -deps -json=Dir,Standard,Module` prints for each package.
type listed struct {
	Dir      string
	Standard bool
	Module   *struct {
		Path, Version, Dir string
		Replace            *struct{ Path, Version string }
	}
}

// licenceFile matches the names of files with terms that a copy has to repeat.
var licenceFile = regexp.MustCompile(`(?i)^(.*licen[cs]e.*|copying.*|notice.*|patents.*|unlicen[cs]e.*)$`)

// A text is a licence, with the modules that it is for.
type text struct {
	body    string
	sources []string // "module version, file"
}

// licences writes the licence texts of Go and of every linked module. A text that several modules
// have in common is written once. A module without a licence is an error.
func (j *job) licences(w io.Writer) error {
	texts := map[string]*text{}
	if err := collect(texts, "Go", j.goroot, j.goroot); err != nil {
		return err
	}
	for _, name := range j.args {
		f, err := os.Open(name)
		if err != nil {
			return err
		}
		err = readPackages(texts, f)
		f.Close()
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return writeTexts(w, texts)
}

func readPackages(texts map[string]*text, r io.Reader) error {
	for d := json.NewDecoder(r); ; {
		var p listed
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		if p.Standard || p.Module == nil || p.Module.Path == ownPath || strings.HasPrefix(p.Module.Path, ownPath+"/") {
			continue
		}
		if err := collect(texts, p.Module.Path+" "+p.Module.Version, p.Dir, p.Module.Dir); err != nil {
			return err
		}
	}
}

// collect adds the licences of a package: those in its directory and in the directories above it,
// up to the root of the module.
func collect(texts map[string]*text, name, dir, root string) error {
	found := false
	for {
		entries, err := os.ReadDir(dir)
		if err != nil {
			return err
		}
		for _, e := range entries {
			if !e.Type().IsRegular() || !licenceFile.MatchString(e.Name()) || filepath.Ext(e.Name()) == ".go" {
				continue
			}
			file := filepath.Join(dir, e.Name())
			if err := note(texts, name, file, root); err != nil {
				return err
			}
			found = true
		}
		if dir == root || dir == filepath.Dir(dir) {
			break
		}
		dir = filepath.Dir(dir)
	}
	if !found {
		return fmt.Errorf("%s: there is no licence in %s: nobody may copy a program with it", name, root)
	}
	return nil
}

func note(texts map[string]*text, name, file, root string) error {
	body, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	rel, err := filepath.Rel(root, file)
	if err != nil {
		return err
	}
	key := strings.Join(strings.Fields(string(body)), " ")
	if texts[key] == nil {
		texts[key] = &text{body: string(bytes.TrimRight(body, "\n"))}
	}
	source := name + ", " + filepath.ToSlash(rel)
	if !slices.Contains(texts[key].sources, source) {
		texts[key].sources = append(texts[key].sources, source)
	}
	return nil
}

func writeTexts(w io.Writer, texts map[string]*text) error {
	var all []*text
	for _, t := range texts {
		slices.Sort(t.sources)
		all = append(all, t)
	}
	slices.SortFunc(all, func(a, b *text) int { return cmp.Compare(a.sources[0], b.sources[0]) })
	_, err := fmt.Fprintf(w, "padlock is linked with the following software. Its own licence is in LICENSE.\n")
	for _, t := range all {
		_, e := fmt.Fprintf(w, "\n%s\n%s\n%s\n\n%s\n", ruleLine, strings.Join(t.sources, "\n"), ruleLine, t.body)
		err = errors.Join(err, e)
	}
	return err
}
