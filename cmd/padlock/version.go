package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// about is what version prints in JSON.
type about struct {
	Version string `json:"version"`
	Commit  string `json:"commit,omitempty"`
	Go      string `json:"go"`
	System  string `json:"system"`
}

func (a *app) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:                   "version",
		DisableFlagsInUseLine: true,
		Short:                 "Print the version",
		Long:                  "version prints the version of padlock, the Go version that built it, and its system.",
		Example:               "  padlock version\n  padlock version --json",
		Args:                  noArgs,
		RunE:                  func(*cobra.Command, []string) error { return a.printVersion() },
	}
}

func (a *app) printVersion() error {
	v := build()
	if a.json {
		return a.print(a.stdout, v)
	}
	_, err := fmt.Fprintf(a.stdout, "padlock %s (%s, %s)\n", v.Version, v.Go, v.System)
	return err
}

// release is the version of a release build, set by the linker.
var release string

// build returns the version of a release. For other builds, it returns the version and the commit
// that the go command has recorded in the program.
func build() about {
	v := about{Version: "unknown", Go: runtime.Version(), System: runtime.GOOS + "/" + runtime.GOARCH}
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
