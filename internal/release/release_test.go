package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
)

// tree makes a directory "padlock" with a program and a page.
func tree(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "padlock")
	for name, mode := range map[string]os.FileMode{"usr/bin/padlock": 0o700, "LICENSE": 0o600} {
		file := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, []byte(name), mode)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func make1(t *testing.T, f func(*job, io.Writer) error, j *job) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := f(j, &b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// The same files make the same archive, whatever their times and the umask.
func TestArchivesAreTheSame(t *testing.T) {
	for _, out := range []string{"x.tar.gz", "x.zip"} {
		j := &job{out: out, seconds: 1e9, args: []string{tree(t)}}
		first := make1(t, (*job).archive, j)
		j.args[0] = tree(t)
		if err := os.Chmod(filepath.Join(j.args[0], "LICENSE"), 0o664); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(first, make1(t, (*job).archive, j)) {
			t.Errorf("%s: two directories with the same files make two archives", out)
		}
	}
}

func TestArchiveHasModes(t *testing.T) {
	want := []string{"padlock/ 755", "padlock/LICENSE 644", "padlock/usr/ 755", "padlock/usr/bin/ 755", "padlock/usr/bin/padlock 755"}
	j := &job{out: "x.zip", args: []string{tree(t)}}
	packed := make1(t, (*job).archive, j)
	z, err := zip.NewReader(bytes.NewReader(packed), int64(len(packed)))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range z.File {
		got = append(got, f.Name+" "+octal(int64(f.Mode().Perm())))
	}
	if runtime.GOOS != "windows" && !slices.Equal(got, want) {
		t.Errorf("zip: %q, want %q", got, want)
	}
	j.out = "x.tar.gz"
	got = nil
	for _, h := range untar(t, unzip(t, make1(t, (*job).archive, j))) {
		got = append(got, h.Name+" "+octal(h.Mode))
		if h.Uid != 0 || h.Uname != "" || h.ModTime.Unix() != 0 {
			t.Errorf("%s belongs to %d %s, at %v", h.Name, h.Uid, h.Uname, h.ModTime)
		}
	}
	if runtime.GOOS != "windows" && !slices.Equal(got, want) {
		t.Errorf("tar: %q, want %q", got, want)
	}
}

func octal(mode int64) string {
	return string([]byte{'0' + byte(mode>>6&7), '0' + byte(mode>>3&7), '0' + byte(mode&7)})
}

func unzip(t *testing.T, packed []byte) []byte {
	t.Helper()
	z, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		t.Fatal(err)
	}
	plain, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	return plain
}

func untar(t *testing.T, plain []byte) (headers []*tar.Header) {
	t.Helper()
	for r := tar.NewReader(bytes.NewReader(plain)); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return headers
		}
		if err != nil {
			t.Fatal(err)
		}
		headers = append(headers, h)
	}
}

// Each digest of an image is that of a blob in it, from the index to the layers.
func TestImageIsWhole(t *testing.T) {
	j := &job{name: "padlock", version: "v1.2.3", seconds: 1e9, args: []string{"linux/amd64=" + tree(t), "linux/arm64=" + tree(t)}}
	plain := make1(t, (*job).image, j)
	blobs := map[string][]byte{}
	for r := tar.NewReader(bytes.NewReader(plain)); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if blobs[h.Name], err = io.ReadAll(r); err != nil {
			t.Fatal(err)
		}
	}
	read := func(digest string, v any) {
		t.Helper()
		blob, ok := blobs["blobs/sha256/"+strings.TrimPrefix(digest, "sha256:")]
		if !ok || "sha256:"+sum(blob) != digest {
			t.Fatalf("there is no blob %s", digest)
		}
		if err := json.Unmarshal(blob, v); v != nil && err != nil {
			t.Fatal(err)
		}
	}
	var index, systems struct{ Manifests []descriptor }
	if err := json.Unmarshal(blobs["index.json"], &index); err != nil || len(index.Manifests) != 1 {
		t.Fatalf("%s: %v", blobs["index.json"], err)
	}
	read(index.Manifests[0].Digest, &systems)
	if len(systems.Manifests) != 2 || systems.Manifests[1].Platform.Architecture != "arm64" {
		t.Fatalf("%+v", systems)
	}
	var manifest struct {
		Config descriptor
		Layers []descriptor
	}
	read(systems.Manifests[0].Digest, &manifest)
	var config struct {
		Config struct{ User string }
		Rootfs struct {
			IDs []string `json:"diff_ids"`
		}
	}
	read(manifest.Config.Digest, &config)
	read(manifest.Layers[0].Digest, nil)
	if config.Config.User != user {
		t.Errorf("the user of the image is %q", config.Config.User)
	}
	layer := unzip(t, blobs["blobs/"+strings.Replace(manifest.Layers[0].Digest, ":", "/", 1)])
	if got := "sha256:" + sum(layer); got != config.Rootfs.IDs[0] {
		t.Errorf("the layer is %s, and the config says %s", got, config.Rootfs.IDs[0])
	}
	if names := untar(t, layer); names[0].Name != "LICENSE" {
		t.Errorf("the first entry is %s", names[0].Name)
	}
}

// A text that two modules share is written once, and the licence of a directory inside a module is
// found too. A module without a licence is an error.
func TestLicences(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go/LICENSE": "of Go", "a/LICENSE": "MIT\n", "b/COPYING": "MIT", "b/sub/LICENSE.txt": "BSD", "b/sub/license.go": "no text", "none/x.go": "",
	} {
		file := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	list := func(pairs ...string) string {
		var lines []string
		for i := 0; i < len(pairs); i += 2 {
			line, err := json.Marshal(map[string]any{
				"Dir":    filepath.Join(dir, pairs[i+1]),
				"Module": map[string]string{"Path": pairs[i], "Version": "v1.0.0", "Dir": filepath.Join(dir, pairs[i])},
			})
			if err != nil {
				t.Fatal(err)
			}
			lines = append(lines, string(line))
		}
		name := filepath.Join(t.TempDir(), "list")
		if err := os.WriteFile(name, []byte(strings.Join(lines, "\n")+`{"Standard":true}{"Module":{"Path":"`+ownPath+`/open"}}`), 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	j := &job{goroot: filepath.Join(dir, "go"), args: []string{list("a", "a", "b", "b/sub")}}
	got := string(make1(t, (*job).licences, j))
	for _, want := range []string{"a v1.0.0, LICENSE\nb v1.0.0, COPYING\n" + ruleLine + "\n\nMIT\n", "b v1.0.0, sub/LICENSE.txt", "Go, LICENSE"} {
		if !strings.Contains(got, want) {
			t.Errorf("there is no %q in:\n%s", want, got)
		}
	}
	if strings.Count(got, "MIT") != 1 || strings.Contains(got, "no text") {
		t.Errorf("a text is there twice, or code is there:\n%s", got)
	}
	j.args = []string{list("none", "none")}
	if err := j.licences(io.Discard); err == nil || !strings.Contains(err.Error(), "no licence") {
		t.Errorf("a module without a licence: %v", err)
	}
}

func TestComponents(t *testing.T) {
	j := &job{name: "padlock", version: "v1.2.3"}
	own, err := j.component(&debug.Module{Path: ownPath + "/open/all", Version: "v0.0.0", Replace: &debug.Module{Path: "../../open/all"}})
	if err != nil || own.PURL != "pkg:golang/"+ownPath+"/open/all@v1.2.3" || own.Hashes != nil {
		t.Errorf("%+v, %v", own, err)
	}
	other, err := j.component(&debug.Module{Path: "example.org/a", Version: "v1.0.0", Sum: "h1:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="})
	if err != nil || other.Hashes[0].Content != "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f" {
		t.Errorf("%+v, %v", other, err)
	}
	if _, err := j.component(&debug.Module{Path: "example.org/a", Replace: &debug.Module{Path: "../a"}}); err == nil {
		t.Error("a module from a directory is a part of a release")
	}
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	j.args = []string{program}
	list := make1(t, (*job).sbom, j)
	var b bom
	if err := json.Unmarshal(list, &b); err != nil || !strings.HasPrefix(b.Serial, "urn:uuid:") || b.Components[0].Name != "std" {
		t.Errorf("%s, %v", list, err)
	}
	if info, ok := debug.ReadBuildInfo(); !ok || !bytes.Contains(list, []byte(`"purl": "pkg:golang/`+info.Path+`@v1.2.3"`)) {
		t.Errorf("the list is not that of %v:\n%s", info.Path, list)
	}
	if !bytes.Equal(list, make1(t, (*job).sbom, j)) {
		t.Error("the same program has two lists")
	}
}

func TestNotes(t *testing.T) {
	name := filepath.Join(t.TempDir(), "CHANGELOG.md")
	page := "# Changelog\n\n## Unreleased\n\nnew\n\n## 1.2.3 - 2026-01-01\n\n- [a](docs/a.md#part), [b](https://example.org)\n\n## [1.2.2]\n\nold\n"
	if err := os.WriteFile(name, []byte(page), 0o600); err != nil {
		t.Fatal(err)
	}
	for version, want := range map[string]string{
		"v1.2.3": "- [a](" + home + "/blob/v1.2.3/docs/a.md#part), [b](https://example.org)\n", "v1.2.2": "old\n", "v1.3.0-rc1": "new\n", "5b85cd2b": "new\n",
	} {
		if got := string(make1(t, (*job).notes, &job{version: version, args: []string{name}})); got != want {
			t.Errorf("%s: %q, want %q", version, got, want)
		}
	}
	if err := (&job{version: "v1.3.0", args: []string{name}}).notes(io.Discard); err == nil || !strings.Contains(err.Error(), "1.3.0") {
		t.Errorf("a version without a section: %v", err)
	}
}
