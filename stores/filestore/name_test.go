package filestore

import (
	"crypto/sha256"
	"encoding/base64"
	"regexp"
	"strings"
	"testing"
)

// The files that Symfony's FlockStore made for these names in a run.
var symfonyNames = map[string]string{
	"user:42":             "sf.user-42.6j_UO+H.lock",
	"":                    "sf..47DEQpj.lock",
	"é":                   "sf.-.SplVfkA.lock",
	"slash?/hash":         "sf.slash-hash.FU77iFm.lock",
	"report/42:daily run": "sf.report-42-daily-run.XtE96Yz.lock",
}

func TestFileNameIsSymfonys(t *testing.T) {
	for name, want := range symfonyNames {
		if got := fileName(name); got != want {
			t.Errorf("fileName(%q) = %q, want %q", name, got, want)
		}
	}
}

func TestNameOf(t *testing.T) {
	for name, ok := range map[string]bool{
		"nightly-report": true, "a.b.c": true, "sf.x.lock": true,
		"user:42": false, strings.Repeat("x", 50): true, strings.Repeat("x", 51): false,
	} {
		if got := nameOf(fileName(name)); ok != (got == name) || !ok && got != "" {
			t.Errorf("nameOf(fileName(%q)) = %q", name, got)
		}
	}
	for _, file := range []string{"", "sf.lock", "sf.a.lock", "sf.a.1234567.gate", "sf.a.12345678lock", "sf.report.1234567.lock"} {
		if name := nameOf(file); name != "" {
			t.Errorf("nameOf(%q) = %q", file, name)
		}
	}
}

// symfony makes the name of the file by the same steps as FlockStore.
func symfony(name string) string {
	a := regexp.MustCompile(`(?s)(?:[^a-zA-Z0-9._\-])+`).ReplaceAllString(latin1(name), "-")
	if len(a) > 50 {
		a = a[:50]
	}
	sum := sha256.Sum256([]byte(name))
	b := base64.StdEncoding.EncodeToString(sum[:])[:7]
	return "sf." + a + "." + strings.ReplaceAll(b, "/", "_") + ".lock"
}

// latin1 replaces each byte that is not ASCII, so that Go's regexp matches byte by byte.
func latin1(s string) string {
	out := []byte(s)
	for i, c := range out {
		if c >= 0x80 {
			out[i] = '!'
		}
	}
	return string(out)
}

func FuzzFileName(f *testing.F) {
	for name := range symfonyNames {
		f.Add(name)
	}
	for _, name := range []string{"../../etc/passwd", "a\x00b", "..", ".", "\xff\xfe", strings.Repeat("/", 1024), strings.Repeat("ab:", 340), "A.b_c-d"} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		file := fileName(name)
		if want := symfony(name); file != want {
			t.Fatalf("fileName(%q) = %q, want %q", name, file, want)
		}
		if strings.ContainsAny(file, "/\x00\\") || len(file) > 255 || recordLockPath(file) == file {
			t.Fatalf("fileName(%q) = %q", name, file)
		}
		if a, ok := readablePart(file); !ok || a != readable(name) {
			t.Fatalf("the readable part of %q is %q, %v", file, a, ok)
		}
		if known := nameOf(file); known != "" && known != name {
			t.Fatalf("nameOf(%q) = %q", file, known)
		}
		for i := range len(name) {
			if !compatible(readable(name), name[:i]) {
				t.Fatalf("%q seems not to begin with %q", name, name[:i])
			}
		}
	})
}
