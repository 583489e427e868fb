package main

import (
	"cmp"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"runtime/debug"
	"slices"
	"strings"
	"time"
)

// A component is a part of a program, as CycloneDX 1.5 describes it.
type component struct {
	Type    string         `json:"type"`
	Ref     string         `json:"bom-ref"`
	Name    string         `json:"name"`
	Version string         `json:"version"`
	PURL    string         `json:"purl"`
	Scope   string         `json:"scope,omitempty"`
	Hashes  []hash         `json:"hashes,omitempty"`
	Links   []externalLink `json:"externalReferences,omitempty"`
}

type hash struct {
	Algorithm string `json:"alg"`
	Content   string `json:"content"`
}

type externalLink struct {
	Type string `json:"type"`
	URL  string `json:"url"`
}

type dependency struct {
	Ref string   `json:"ref"`
	On  []string `json:"dependsOn"`
}

type bom struct {
	Format       string         `json:"bomFormat"`
	Spec         string         `json:"specVersion"`
	Serial       string         `json:"serialNumber"`
	Version      int            `json:"version"`
	Metadata     map[string]any `json:"metadata"`
	Components   []component    `json:"components"`
	Dependencies []dependency   `json:"dependencies"`
}

// sbom lists the modules that the linker has recorded in the programs. The list is that of all
// programs together, since they are one program for several systems.
func (j *job) sbom(w io.Writer) error {
	parts, path := map[string]component{}, ""
	for _, file := range j.args {
		info, err := buildinfo.ReadFile(file)
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		path = info.Path
		add(parts, module("std", strings.TrimPrefix(info.GoVersion, "go"), ""))
		for _, dep := range info.Deps {
			c, err := j.component(dep)
			if err != nil {
				return fmt.Errorf("%s: %w", file, err)
			}
			add(parts, c)
		}
	}
	main := module(path, j.version, "")
	main.Type, main.Name = "application", j.name
	main.Links = []externalLink{{"vcs", home}}
	b := bom{
		Format: "CycloneDX", Spec: "1.5", Version: 1,
		Metadata: map[string]any{"timestamp": j.time().Format(time.RFC3339), "component": main},
	}
	on := []string{}
	for _, c := range parts {
		b.Components = append(b.Components, c)
		on = append(on, c.Ref)
	}
	slices.SortFunc(b.Components, func(x, y component) int { return cmp.Compare(x.Ref, y.Ref) })
	slices.Sort(on)
	b.Dependencies = []dependency{{main.Ref, on}}
	b.Serial = serial(main.Ref, on)
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(b)
}

func add(parts map[string]component, c component) { parts[c.Ref] = c }

// component returns the component of a module. A module of padlock's own has the version of the
// release, and no hash, since it came from this tree.
func (j *job) component(dep *debug.Module) (component, error) {
	if dep.Path == ownPath || strings.HasPrefix(dep.Path, ownPath+"/") {
		return module(dep.Path, j.version, ""), nil
	}
	if dep.Replace != nil {
		dep = dep.Replace
	}
	if dep.Version == "" || dep.Sum == "" {
		return component{}, fmt.Errorf("%s has no version or no sum: a release is made of published modules", dep.Path)
	}
	return module(dep.Path, dep.Version, dep.Sum), nil
}

// module makes a component. sum is that of go.sum: "h1:" and a SHA-256 in base64, or "".
func module(path, version, sum string) component {
	purl := "pkg:golang/" + path + "@" + version
	c := component{Type: "library", Ref: purl, Name: path, Version: version, PURL: purl, Scope: "required"}
	if digest, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(sum, "h1:")); err == nil && len(digest) == sha256.Size {
		c.Hashes = []hash{{"SHA-256", hex.EncodeToString(digest)}}
	}
	return c
}

// serial is a UUID made of the parts of the list, so that the same program has the same one.
func serial(name string, parts []string) string {
	digest := sha256.Sum256([]byte(name + "\n" + strings.Join(parts, "\n")))
	id := digest[:16]
	id[6], id[8] = id[6]&0x0f|0x80, id[8]&0x3f|0x80 // version 8 of RFC 9562
	return fmt.Sprintf("urn:uuid:%x-%x-%x-%x-%x", id[:4], id[4:6], id[6:8], id[8:10], id[10:])
}
