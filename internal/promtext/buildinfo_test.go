package promtext

import (
	"regexp"
	"runtime/debug"
	"strings"
	"testing"
)

func TestBuildInfo(t *testing.T) {
	const another = "example.org/another"
	for name, c := range map[string]struct {
		main debug.Module
		deps []*debug.Module
		want string
	}{
		"a program of others":     {debug.Module{Path: another, Version: "v9.0.0"}, []*debug.Module{{Path: module, Version: "v1.2.0"}}, "v1.2.0"},
		"only another module":     {debug.Module{Path: another}, []*debug.Module{{Path: module + "/stores/redisstore", Version: "v1.2.0"}}, "v1.2.0"},
		"a name that looks alike": {debug.Module{Path: another}, []*debug.Module{{Path: module + "er", Version: "v1.2.0"}}, "unknown"},
		"the command":             {debug.Module{Path: module + "/cmd/padlock", Version: "v1.2.0"}, []*debug.Module{{Path: module, Version: "(devel)"}}, "v1.2.0"},
		"a directory":             {debug.Module{Path: another}, []*debug.Module{{Path: module, Version: "v0.0.0", Replace: &debug.Module{Path: "../padlock"}}}, "(devel)"},
		"a test of the tree":      {debug.Module{Path: module}, nil, "(devel)"},
	} {
		if got := versionIn(&debug.BuildInfo{Main: c.main, Deps: c.deps}); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
	var out strings.Builder
	BuildInfo(&out)
	if !regexp.MustCompile(`(?m)^padlock_build_info\{version="[^"]+",goversion="[^"]+"\} 1$`).MatchString(out.String()) {
		t.Error(out.String())
	}
}
