package promtext

import (
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"strings"
)

// BuildInfo writes the metric that says which version of padlock the program has.
func BuildInfo(w io.Writer) {
	const name = "padlock_build_info"
	version := "unknown"
	if info, ok := debug.ReadBuildInfo(); ok {
		version = versionIn(info)
	}
	Head(w, name, "gauge", "Always 1; the labels have the versions of padlock and of Go.")
	fmt.Fprintf(w, "%s{%s,%s} 1\n", name, Label("version", version), Label("goversion", runtime.Version()))
}

const module = "github.com/padlock-go/padlock"

// versionIn returns the version of padlock that info records, such as "v1.2.0". All modules of
// padlock have one version. It returns "(devel)" if padlock was built from a directory.
func versionIn(info *debug.BuildInfo) string {
	version := "unknown"
	for _, m := range append(info.Deps, &info.Main) {
		switch {
		case m.Path != module && !strings.HasPrefix(m.Path, module+"/"):
		case m.Replace == nil && m.Version != "" && m.Version != "(devel)":
			return m.Version
		default:
			version = "(devel)"
		}
	}
	return version
}
