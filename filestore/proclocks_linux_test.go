package filestore

import "testing"

// A line that two reads show is one exclusive lock. Two equal lines of readers are two locks.
func TestLinesThatAreReadTwice(t *testing.T) {
	text := []byte("1: FLOCK  ADVISORY  WRITE 77 fe:00:12 0 EOF\n2: FLOCK  ADVISORY  WRITE 77 fe:00:12 0 EOF\n" +
		"3: FLOCK  ADVISORY  READ 77 fe:00:13 0 EOF\n4: FLOCK  ADVISORY  READ 77 fe:00:13 0 EOF\n")
	locks := parseLocks(text, "fe:00", 0)
	if len(locks[12]) != 1 || len(locks[13]) != 2 {
		t.Errorf("the locks are %v", locks)
	}
}
