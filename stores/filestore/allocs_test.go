//go:build linux && !race

package filestore

import "testing"

// Acquire and Release allocate nothing if a name is used again and again. (The race detector makes
// sync.Pool allocate.)
func TestAcquireAllocatesNothing(t *testing.T) {
	s := open(t, t.TempDir())
	r := request("n", "a")
	turn := func() {
		if _, err := s.Acquire(background, r); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Release(background, r.Name, r.Token.Text(), 0); err != nil {
			t.Fatal(err)
		}
	}
	for range 16 {
		turn()
	}
	if n := testing.AllocsPerRun(500, turn); n > 0 {
		t.Errorf("%v allocations", n)
	}
}
