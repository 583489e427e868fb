package command

import (
	"runtime"
	"runtime/debug"
)

// about is what version prints in JSON.
type about struct {
	Version string `json:"version"`
	Commit  string `json:"commit,omitempty"`
	Go      string `json:"go"`
	System  string `json:"system"`
	Program string `json:"program"`
}

// build returns the version of a release. For other builds, it returns the version and the commit
// that the go command has recorded in the program.
func (p *program) build() about {
	v := about{Program: p.programName, Version: "unknown", Go: runtime.Version(), System: runtime.GOOS + "/" + runtime.GOARCH}
	if p.version != "" {
		v.Version = p.version
		return v
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return v
	}
	v.Version = info.Main.Version
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			v.Commit = s.Value
		}
	}
	return v
}
