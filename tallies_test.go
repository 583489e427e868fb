package padlock

import (
	"fmt"
	"hash/maphash"
	"strings"
	"testing"
)

// Names that differ in one place only must not share a place among the recent Tallies.
func TestHashOfNames(t *testing.T) {
	a := tallies{seed: maphash.MakeSeed()}
	for _, form := range []string{"%d", "job:%d", "invoice:%06d", "tenant:%04d:orders", "%03d:nightly-report:x", "a-long-name-of-a-lock:%d", "nightly:%02d:report:of:the"} {
		places := map[uint8]bool{}
		const names = 100
		for i := range names {
			name := fmt.Sprintf(form, i)
			places[a.hash(name)] = true
			if a.hash(strings.Clone(name)) != a.hash(name) {
				t.Errorf("%q has two places", name)
			}
		}
		if len(places) < names/2 { // by chance, 100 names have 83 places
			t.Errorf("%d names like %q have %d places", names, form, len(places))
		}
	}
}
