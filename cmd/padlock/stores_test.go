package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/open"
)

// Every scheme has its row, but for memory:, which no two processes share; and
// whose locks can outlive a process is said right.
func TestEverySchemeIsListed(t *testing.T) {
	var listed []string
	for _, k := range kinds(t.TempDir()) {
		listed = append(listed, k.schemes...)
		s, err := open.Store(t.Context(), k.url)
		if err != nil {
			t.Fatal(err)
		}
		for _, scheme := range k.schemes {
			if got := strings.Contains(withLeases, scheme+":"); got != (s.Guarantees().Bound == driver.ToNothing) {
				t.Errorf("%s: among those with leases: %v", scheme, got)
			}
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	slices.Sort(listed)
	known := slices.DeleteFunc(open.Schemes(), func(s string) bool { return s == "memory" })
	if !slices.Equal(listed, known) {
		t.Errorf("listed are %q, known %q", listed, known)
	}
	if minTTL != driver.MinTTL || maxTTL != driver.MaxTTL {
		t.Error("the bounds of a TTL are others")
	}
}
