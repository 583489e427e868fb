package house

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestImages checks the drawings of the pages.
func TestImages(t *testing.T) {
	readHouse(t) // outside of the project's tree, this skips the test
	files, err := filepath.Glob("docs/images/*.svg")
	if err != nil || len(files) < 2 {
		t.Fatalf("found %d images: %v", len(files), err)
	}
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		report(t, checkImage(name, string(text)))
	}
}

var (
	svgRoot = regexp.MustCompile(`<svg[^>]*>`)
	svgText = regexp.MustCompile(`<text[^>]*>([^<]*)<`)
)

// checkImage reports what a reader would miss: a title for those who do not see the picture,
// colours for dark pages, and labels that stay at their places in every font.
func checkImage(name, text string) []string {
	var found []string
	fault := func(format string, args ...any) { found = append(found, name+": "+fmt.Sprintf(format, args...)) }
	if !regexp.MustCompile(`<title>[^<]+</title>`).MatchString(text) {
		fault("it has no <title>")
	}
	if !strings.Contains(text, "prefers-color-scheme: dark") {
		fault("it has no colours for dark pages (prefers-color-scheme)")
	}
	anchored := strings.Contains(svgRoot.FindString(text), "text-anchor=")
	for _, m := range svgText.FindAllStringSubmatch(text, -1) {
		if !anchored && !strings.Contains(m[0], "text-anchor=") {
			fault("the text %q has no text-anchor", m[1])
		}
	}
	return found
}

func TestImagesBite(t *testing.T) {
	const good = `<svg viewBox="0 0 1 1"><title>A</title><style>@media (prefers-color-scheme: dark) {}</style><text x="1" text-anchor="end">redislock, polls</text></svg>`
	for _, c := range []struct{ change, to, want string }{
		{"A", "B", ""},
		{"<title>A</title>", "", "it has no <title>"},
		{"dark", "light", "it has no colours for dark pages"},
		{` text-anchor="end"`, "", `the text "redislock, polls" has no text-anchor`},
	} {
		expect(t, checkImage("a.svg", strings.Replace(good, c.change, c.to, 1)), c.want)
	}
}
