//go:build linux

package filestore

import (
	"os"
	"testing"
	"time"
)

// The kernel may take seconds to close an inotify descriptor. So the store keeps it for the next
// waiter. A waiter that leaves does not close it.
func TestInotifyIsKeptForTheNextWaiter(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir())
	take(t, s, request("job", "us"))
	free(t, s, "job", "us")
	f, err := s.enter("job")
	if err != nil {
		t.Fatal(err)
	}
	defer s.endCall(f)
	n := &s.notify
	descriptor := func() *os.File {
		n.mu.Lock()
		defer n.mu.Unlock()
		return n.file
	}
	if !n.watch(f, f.spare) {
		t.Fatal("there is no inotify")
	}
	first := descriptor()
	n.unwatch(f)
	if descriptor() != first {
		t.Error("the descriptor was closed by the waiter that left")
	}
	if n.watch(f, f.spare); descriptor() != first {
		t.Error("the next waiter has another descriptor")
	}
	n.unwatch(f)
	for deadline := time.Now().Add(20 * time.Second); descriptor() != nil; {
		if time.Now().After(deadline) {
			t.Fatal("the descriptor stays open although nobody waits")
		}
		<-time.After(10 * time.Millisecond)
	}
}
