package command

import (
	"slices"
	"testing"

	"github.com/padlock-go/padlock/open"
)

// Every scheme that two processes can share has one row.
func TestEverySchemeIsListed(t *testing.T) {
	t.Parallel()
	p := whole()
	list, err := p.kinds(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var listed, known []string
	for _, k := range list {
		listed = append(listed, k.Schemes...)
		if k.Help == "" || k.Store == "" {
			t.Errorf("%s: has no help or no promises: %+v", k.Schemes[0], k)
		}
	}
	for _, s := range open.Known(p.schemes) {
		if s.InProcess {
			continue
		}
		known = append(known, s.Names...)
		for _, dsn := range s.Symfony {
			known = append(known, "symfony+"+dsn)
		}
	}
	slices.Sort(listed)
	slices.Sort(known)
	if !slices.Equal(listed, known) {
		t.Errorf("listed are %q, known %q", listed, known)
	}
}
