package frameworks

import (
	"os"
	"strings"
	"testing"
)

// TestPageHasTheCode: the lines that the page shows are those that the tests run.
func TestPageHasTheCode(t *testing.T) {
	t.Parallel()
	page := readPage(t, "frameworks.md")
	for _, name := range []string{"nethttp.go", "chi.go", "mux.go", "gin.go", "echo.go"} {
		text, err := os.ReadFile(name)
		noError(t, err)
		_, code, ok := strings.Cut(string(text), "\n)\n\n") // after the imports
		if !ok || !strings.Contains(page, "```go\n"+code+"```\n") {
			t.Errorf("the page does not have the code of %s", name)
		}
	}
}
