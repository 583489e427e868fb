package padlockweb

import (
	"strings"
	"testing"
	"time"

	"github.com/padlock-go/padlock/observe/history"
)

// The picture places runs by the clock of the store, marks those that worked at once, and says so.
func TestTimeline(t *testing.T) {
	at := time.Date(2026, 11, 28, 2, 0, 0, 0, time.UTC)
	run := func(host string, ahead, start, took time.Duration) history.Run {
		begins := at.Add(start + ahead)
		return history.Run{Name: "job", Host: host, PID: 7, Slot: -1, Fence: uint64(at.Add(start).UnixMicro()), Start: begins, End: begins.Add(took)}
	}
	const slow = -2 * time.Second
	past := []history.Run{run("a", 0, 0, 10*time.Second), run("b", slow, 10*time.Second, 20*time.Second), run("a", 0, 40*time.Second, 10*time.Second)}
	clean := newTimeline(past)
	if clean == nil || len(clean.Lanes) != 2 || clean.Lanes[0].Bars[0].Two || !strings.Contains(clean.Text, "no two worked at once") {
		t.Fatalf("%+v", clean)
	}
	if b := clean.Lanes[1].Bars[0]; b.X != 200 || b.Width != 400 {
		t.Errorf("the run of b is at %+v", b)
	}
	two := newTimeline(append(past, run("b", slow, 45*time.Second, 15*time.Second)))
	last := two.Lanes[1].Bars[1]
	if !last.Two || !two.Lanes[0].Bars[1].Two || two.Lanes[0].Bars[0].Two || !strings.Contains(two.Text, "1 time two worked at once: 2026-11-28 02:00:45 UTC for 5 s, b:7 beside a:7") {
		t.Errorf("%+v", two)
	}
	if newTimeline(past[:1]) != nil {
		t.Error("one run is drawn")
	}
}
