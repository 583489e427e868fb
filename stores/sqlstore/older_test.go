package sqlstore

import (
	"encoding/json"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/storekit/decide"
)

// An olderPlace is a place in a queue as the first builds of this package read and write it.
type olderPlace struct {
	Token  opaque        `json:"t"`
	Shared bool          `json:"s,omitempty"`
	Above  uint64        `json:"a,omitempty"`
	Push   bool          `json:"p,omitempty"`
	Until  decide.Time   `json:"u"`
	Holder driver.Holder `json:"h"`
}

// rewritten returns the place after a build whose places have type P has read and written it.
func rewritten[P any](t *testing.T, place any) (out P) {
	t.Helper()
	text, err := json.Marshal(place)
	if err == nil {
		err = json.Unmarshal(text, &out)
	}
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return out
}

// An older build and this one wait in the same queue. Each build notifies the waiters of the other
// build on a channel on which these waiters listen.
func TestOlderPlaces(t *testing.T) {
	listeningStore(t, func(s *Store, _ *scripted, _ *waiting) {
		for _, c := range []struct {
			name    string
			place   place
			push    bool
			channel string
		}{
			{"of this build", newPlace(asks("a"), "own", 7), true, "own"},
			{"of this build, polls", newPlace(asks("a"), "", 7), false, ""},
			{"of this build, written again by the older one", rewritten[place](t, rewritten[olderPlace](t, newPlace(asks("a"), "own", 7))), true, s.sharedChannel()},
			{"of the older build", rewritten[place](t, olderPlace{Token: "a", Push: true, Until: 7}), true, s.sharedChannel()},
			{"of the older build, polls", rewritten[place](t, olderPlace{Token: "a", Until: 7}), false, ""},
		} {
			if c.place.Push != c.push || c.place.Token != "a" || c.place.Until != 7 {
				t.Errorf("%s: %+v", c.name, c.place)
			}
			if got := s.notification(c.place.address(), handedName{fence: 1}, false)[0]; c.push && got != c.channel {
				t.Errorf("%s: notified on %v, want %v", c.name, got, c.channel)
			}
			if older := rewritten[olderPlace](t, c.place); older.Push != c.push || older.Until != 7 {
				t.Errorf("%s: the older build reads %+v", c.name, older)
			}
		}
	})
}

// The store listens on the channel that it writes into its places and on the one that the older
// build uses.
func TestListensOnBothChannels(t *testing.T) {
	listeningStore(t, func(s *Store, l *scripted, _ *waiting) {
		defer s.listen()()
		synctest.Wait()
		if want := []string{s.waits.pushChannel(), s.sharedChannel()}; !slices.Equal(l.channels, want) {
			t.Errorf("listens on %q, want %q", l.channels, want)
		}
		if got, want := s.sharedChannel(), "padlock_0d1196146452"; got != want {
			t.Errorf("the shared channel is %s, want %s as in the older build", got, want)
		}
	})
}

// olderMore is a value of the column "more". It has every field that the first builds of this
// package write.
const olderMore = `{"holds":[{"t":"cg","s":true,"r":true,"f":12,"b":1,"u":2,"l":3,"h":{"host":"web-3","label":"a"}}],` +
	`"queue":[{"t":"Yg","s":true,"a":9,"p":true,"u":4,"h":{}},{"t":"Yw","u":5,"h":{}}],` +
	`"lost":["ZA"],"spent":[{"t":"ZQ","u":6}],"intent":{"t":"Zg","u":7},"free":8,"cool":9,"cooled":{"label":"g"}}`

// This build reads and writes the same texts as older builds.
func TestOlderMore(t *testing.T) {
	var m moreColumn
	if err := decode(olderMore, &m); err != nil {
		t.Fatal(err)
	}
	s := &state{}
	s.addMore(&m)
	if text, err := json.Marshal(s.moreOf(s.Holds)); err != nil || string(text) != olderMore {
		t.Errorf("got  %s, %v\nwant %s", text, err, olderMore)
	}
}
