package padlockweb

import (
	"net/url"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

// The parameters that a page gives to its stream and its links lead to the same rows.
func TestQueryLeadsBack(t *testing.T) {
	for _, text := range []string{"", "shop/", `a\x`, "\x1b", strings.Repeat("\x1b", maxFilter), strings.Repeat("é", maxFilter), strings.Repeat("a", 3000), "\xff" + strings.Repeat("é", maxFilter)} {
		for _, kind := range []string{"table", "name", "jobs"} {
			q := newQuery(kind, url.Values{"n": {text}, "h": {text}, "q": {text}, "failed": {"1"}, "since": {"12h"}, "from": {"jobs"}})
			if again := newQuery(kind, q.values()); again != q {
				t.Errorf("%s of %q: the page shows %+v, its stream %+v", kind, text, q, again)
			}
		}
	}
}

// A page is not called silent while the server asks a silent store for a name and for its runs.
func TestSilenceIsLongerThanPatience(t *testing.T) {
	script, err := os.ReadFile("assets/live.js")
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`const silence = (\d+);`).FindSubmatch(script)
	if found == nil {
		t.Fatal("live.js does not say when the server is silent")
	}
	seconds, _ := strconv.Atoi(string(found[1]))
	if silence, longest := time.Duration(seconds)*time.Second, heartbeat+lookPatience+runsPatience; silence <= longest {
		t.Errorf("the server is called silent after %s, and an event may take %s", silence, longest)
	}
}
