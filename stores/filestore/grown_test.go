//go:build linux

package filestore_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/padlock-go/padlock/driver"
)

// A process that has used a file often reads it from memory. It also sees a record that another
// process has written, and that is longer than the file was.
func TestGrownRecord(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	often, other := openStore(t, dir), openStore(t, dir)
	defer often.Close()
	defer other.Close()
	brief := driver.Request{Name: "job", Token: driver.TokenOf("often"), TTL: time.Minute}
	for range 20 {
		if _, err := often.Acquire(t.Context(), brief); err != nil {
			t.Fatal(err)
		}
		if _, err := often.Release(t.Context(), "job", "often", 0); err != nil {
			t.Fatal(err)
		}
	}
	long := driver.Request{Name: "job", Token: driver.TokenOf("detached"), TTL: time.Minute, Detached: true, Holder: driver.Holder{Host: "host", PID: 1, Label: strings.Repeat("long ", 20)}}
	if _, err := other.Acquire(t.Context(), long); err != nil {
		t.Fatal(err)
	}
	if g, err := often.Acquire(t.Context(), brief); !errors.Is(err, driver.ErrHeld) {
		t.Errorf("Acquire of a name under a lease: fence %d, %v", g.Fence, err)
	}
}
