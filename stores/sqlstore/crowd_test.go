package sqlstore

import (
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/padlock-go/padlock/driver"
)

// A name is remembered for the given time, and only so many names are.
func TestRecentNames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := recentNames{clock: driver.SystemClock()}
		has := func(name string, want bool) {
			t.Helper()
			if n.isRecent(name) != want {
				t.Errorf("has(%s) is %v", name, !want)
			}
		}
		has("a", false)
		n.note("a", time.Second)
		has("a", true)
		has("b", false)
		<-time.After(time.Second - 1)
		has("a", true)
		<-time.After(1)
		has("a", false)
		n.note("b", time.Second)
		n.forget("b")
		has("b", false)
		for i := range maxRecent + 10 {
			n.note(strconv.Itoa(i), time.Second)
		}
		if len(n.until) > maxRecent {
			t.Errorf("%d names", len(n.until))
		}
		<-time.After(time.Second + 1)
		n.note("later", time.Second)
		if has("later", true); len(n.until) != 1 {
			t.Errorf("%d names after a second", len(n.until))
		}
	})
}
