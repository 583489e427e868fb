package recordfile

import (
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"

	"github.com/padlock-go/padlock/driver/fast"
)

// asOther calls f in a thread that has the rights of another user to files, if the test runs as
// root. To other users, the mode of a file of mode 0 is enough.
func asOther(t *testing.T, dir string, f func()) {
	t.Helper()
	if err := os.Chmod(filepath.Dir(dir), 0o755); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // and never unlocks: the thread ends with the goroutine
		if os.Geteuid() == 0 {
			if err := syscall.Setfsuid(65534); err != nil {
				t.Error(err)
				return
			}
		}
		f()
	}()
	<-done
}

// What could not be read is an error, and neither an empty history nor the oldest one.
func TestUnreadRecords(t *testing.T) {
	d := Dir{Path: filepath.Join(t.TempDir())}
	for _, name := range []string{"good", "bad", "worse"} {
		if err := d.Write(name, []fast.Record{{ID: "r1", Text: "one"}}); err != nil {
			t.Fatal(err)
		}
	}
	for path, mode := range map[string]os.FileMode{
		d.Path: 0o755, d.dirOf("good"): 0o755, d.dirOf("bad"): 0o755, d.dirOf("worse"): 0,
		filepath.Join(d.dirOf("good"), "r1.run"): 0o644, filepath.Join(d.dirOf("bad"), "r1.run"): 0,
	} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { _ = os.Chmod(d.dirOf("worse"), 0o755) })
	asOther(t, d.Path, func() {
		for _, name := range []string{"bad", "worse"} {
			if records, err := d.Read(name); err == nil {
				t.Errorf("the records of %s cannot be read: %v, %v, want an error", name, records, err)
			}
		}
		if records, err := d.Read("good"); err != nil || len(records) != 1 {
			t.Errorf("the records of good: %v, %v", records, err)
		}
		if names, err := d.Newest("", 10); err == nil || len(names) != 1 {
			t.Errorf("names: %q, %v, want good and an error", names, err)
		}
		if names, err := d.Newest("w", 10); err == nil {
			t.Errorf("names: %q, %v, want an error", names, err)
		}
	})
}
