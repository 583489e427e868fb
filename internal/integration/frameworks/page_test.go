package frameworks

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestPageHasTheCode: the lines that the page shows are those that the tests run. Of each router it
// has a row with the lines that differ.
func TestPageHasTheCode(t *testing.T) {
	t.Parallel()
	page := readPage(t, "frameworks.md")
	for _, name := range []string{"nethttp.go", "chi.go", "mux.go", "gin.go", "echo.go"} {
		_, row, ok := strings.Cut(page, "/"+name+") |")
		row, _, _ = strings.Cut(row, "\n")
		lines := regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(row, -1)
		if !ok || len(lines) < 2 {
			t.Errorf("the page has no row with the lines of %s", name)
		}
		for _, line := range lines {
			if !strings.Contains(readCode(t, name), "\t"+line[1]+"\n") {
				t.Errorf("%s does not have the line %s", name, line[1])
			}
		}
	}
}

func readCode(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	noError(t, err)
	return string(text)
}
