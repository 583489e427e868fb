package command

import (
	"runtime"
	"runtime/debug"
)

// release is the version of a release build, or "" for other builds.
var release string

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
func build() about {
	v := about{Program: programName, Version: "unknown", Go: runtime.Version(), System: runtime.GOOS + "/" + runtime.GOARCH}
	if release != "" {
		v.Version = release
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
