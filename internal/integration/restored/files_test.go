package restored

import (
	"os"
	"testing"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/internal/server"
)

// TestFiles puts a copy of the directory in its place, and writes a copy into its files. A lock of a
// process is in the kernel and not in the copy; a detached one is in the copy.
func TestFiles(t *testing.T) {
	t.Parallel()
	server.Thorough(t)
	for name, c := range map[string]struct {
		opts    []padlock.LockerOption
		replace bool
		w       want
	}{
		"processes, replaced":   {nil, true, want{}},
		"processes, written to": {nil, false, want{stays: true}},
		"detached, replaced":    {[]padlock.LockerOption{padlock.Detached()}, true, want{}},
		"detached, written to":  {[]padlock.LockerOption{padlock.Detached()}, false, want{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, kept := t.TempDir()+"/locks", t.TempDir()+"/copy"
			place{url: "file://" + dir, ttl: 3 * time.Second, opts: c.opts, backUp: func() {
				run(t, "cp", "-a", dir, kept)
			}, putBack: func() {
				if c.replace {
					if err := os.RemoveAll(dir); err != nil {
						t.Fatal(err)
					}
				}
				run(t, "cp", "-aT", kept, dir)
			}}.play(t, c.w)
		})
	}
}
