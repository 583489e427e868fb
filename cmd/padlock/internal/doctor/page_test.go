package doctor

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The page names each check that has its name in the code.
func TestPageNamesChecks(t *testing.T) {
	page, err := os.ReadFile("../../../../docs/doctor.md")
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	named := regexp.MustCompile(`v\.(?:good|problem|unknown|add|reportRefusal)\("([^"]+)"`)
	found := 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range named.FindAllStringSubmatch(string(text), -1) {
			if found++; !strings.Contains(string(page), "`"+m[1]+"`") {
				t.Errorf("docs/doctor.md does not name the check %s of %s", m[1], file)
			}
		}
	}
	if found < 20 {
		t.Errorf("only %d checks are found in the code", found)
	}
}
