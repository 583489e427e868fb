package house

import (
	"flag"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var (
	drawSeed  = flag.Uint64("seed", 0, "TestDrawComments: which comments are drawn; 0 draws none")
	drawCount = flag.Int("count", 80, "TestDrawComments: how many comments are drawn")
	drawTree  = flag.String("tree", "", "TestDrawComments: draws from the Go files below this directory instead")
)

// minWords is the minimum number of words of a comment that is drawn.
const minWords = 8

// codeAfter is how many lines of code are printed after a comment.
const codeAfter = 6

// TestDrawComments prints comments at random, for readers who mark those that they had to read
// twice. The same seed on the same tree prints the same comments:
//
//	go test ./internal/house -run DrawComments -v -args -seed 7
//
// With -tree "$(go env GOROOT)/src" the comments are those of Go's own library. The readers of both
// draws then show how many comments they mark in a text that is known to be good.
func TestDrawComments(t *testing.T) {
	if *drawSeed == 0 {
		t.Skip("prints comments with -v -args -seed N")
	}
	files := readHouse(t)
	if *drawTree != "" {
		files = readGo(t, *drawTree)
	}
	comments := drawable(files)
	random := rand.New(rand.NewPCG(*drawSeed, 0))
	random.Shuffle(len(comments), func(i, j int) { comments[i], comments[j] = comments[j], comments[i] })
	count := min(*drawCount, len(comments))
	fmt.Printf("%d of %d comments, seed %d\n", count, len(comments), *drawSeed)
	for i, c := range comments[:count] {
		fmt.Printf("\n%d. %s:%d\n\n%s\n", i+1, c.file.path, c.starts[0].line, c.withCode())
	}
}

// readGo reads the Go files below a directory of another project.
func readGo(t *testing.T, dir string) (files []*houseFile) {
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(name) != ".go" {
			return err
		}
		src, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		if f, err := parseHouse(filepath.ToSlash(name), ".", src); err == nil { // testdata does not always parse
			files = append(files, f)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// A fileComment is a comment and its file.
type fileComment struct {
	passage
	file *houseFile
}

// drawable returns the comments of code, without those of tests.
func drawable(files []*houseFile) []fileComment {
	var found []fileComment
	for _, f := range files {
		if f.test() || f.ast == nil && markOf(f) != "lua" {
			continue
		}
		for _, p := range passages(f) {
			if p.kind == "comment" && len(strings.Fields(p.text)) >= minWords && !strings.HasPrefix(p.text, "Copyright ") {
				found = append(found, fileComment{p, f})
			}
		}
	}
	return found
}

// withCode returns the comment as it stands in the file, and the code after it.
func (c *fileComment) withCode() string {
	lines := strings.Split(string(c.file.src), "\n")
	first, last := c.starts[0].line, c.starts[len(c.starts)-1].line
	end := min(len(lines), last+codeAfter)
	return strings.Join(lines[first-1:end], "\n")
}

func TestDrawCommentsBite(t *testing.T) {
	source := "// Package p is too short.\npackage p\n\n// A comment that has at least eight words is drawn.\nfunc f() {\n}\n"
	var files []*houseFile
	for _, name := range []string{"p.go", "p_test.go"} {
		f, err := parseHouse(name, ".", []byte(source))
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, f)
	}
	comments := drawable(files)
	if len(comments) != 1 || comments[0].file.path != "p.go" || !strings.Contains(comments[0].withCode(), "func f()") {
		t.Errorf("drawn %v, want the long comment of p.go with its code", comments)
	}
}
