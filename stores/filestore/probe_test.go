//go:build linux

package filestore

import (
	"testing"
	"time"
)

// If the system has no list of locks, Inspect tries a lock and so finds its holders.
func TestInspectByProbing(t *testing.T) {
	s, other := open(t, t.TempDir()), (*Store)(nil)
	other = open(t, s.Dir(), func(c *config) { c.probes = true })
	if state := inspect(t, other, "job"); len(state.Holds) != 0 {
		t.Errorf("a name that nobody has used is held by %+v", state.Holds)
	}
	take(t, s, request("job", "us"))
	if state := inspect(t, other, "job"); len(state.Holds) != 1 || state.Holds[0].Label != "us" || state.Holds[0].Shared {
		t.Errorf("held by %+v", state.Holds)
	}
	if states, err := other.List(patience(t), "j"); err != nil || len(states) != 1 || states[0].Name != "job" || len(states[0].Holds) != 1 {
		t.Errorf("List: %+v, %v", states, err)
	}
	if _, err := s.Release(patience(t), "job", "us", time.Minute); err != nil {
		t.Fatal(err)
	}
	if state := inspect(t, other, "job"); len(state.Holds) != 1 || !state.Holds[0].Cooling {
		t.Errorf("a cool-down shows as %+v", state.Holds)
	}
	for _, token := range []string{"one", "two"} {
		take(t, s, shared("read", token))
	}
	state := inspect(t, other, "read")
	if len(state.Holds) != 2 || !state.Holds[0].Shared || state.Holds[0].Label == state.Holds[1].Label {
		t.Errorf("read by %+v", state.Holds)
	}
	held(t, s, "read", "one")
	held(t, s, "read", "two")
	if _, err := s.Release(patience(t), "read", "one", 0); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Release(patience(t), "read", "two", 0); err != nil {
		t.Fatal(err)
	}
	if state := inspect(t, other, "read"); len(state.Holds) != 0 {
		t.Errorf("a free name is held by %+v", state.Holds)
	}
}
