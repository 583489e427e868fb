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
	for range 100 {
		first, left := descriptor(), time.Now()
		n.unwatch(f)
		kept := descriptor() == first
		n.watch(f, f.spare)
		again := descriptor() == first
		if kept && again {
			break
		}
		if time.Since(left) < notifyIdle { // otherwise the machine was too slow
			t.Fatalf("the waiter that left closed the descriptor: %v; the next waiter has another one: %v", !kept, !again)
		}
	}
	n.unwatch(f)
	for deadline := time.Now().Add(time.Minute); descriptor() != nil; {
		if time.Now().After(deadline) {
			t.Fatal("the descriptor stays open although nobody waits")
		}
		<-time.After(10 * time.Millisecond)
	}
}
