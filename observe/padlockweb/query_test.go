package padlockweb

import (
	"net/url"
	"strings"
	"testing"
)

// The parameters that a page gives to its stream and its links lead to the same rows.
func TestQueryLeadsBack(t *testing.T) {
	for _, text := range []string{"", "shop/", `a\x`, "\x1b", strings.Repeat("\x1b", maxFilter), strings.Repeat("é", maxFilter), strings.Repeat("a", 3000), "\xff" + strings.Repeat("é", maxFilter)} {
		for _, kind := range []string{"table", "name", "host"} {
			q := newQuery(kind, url.Values{"n": {text}, "h": {text}, "q": {text}, "sort": {"held"}})
			if again := newQuery(kind, q.values()); again != q {
				t.Errorf("%s of %q: the page shows %+q, its stream %+q", kind, text, q, again)
			}
		}
	}
}
