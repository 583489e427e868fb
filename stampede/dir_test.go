package stampede_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/stampede"
	"github.com/padlock-go/padlock/stores/filestore"
	"github.com/padlock-go/padlock/stores/memstore"
)

func newDir(t *testing.T, path string, store padlock.Store) *stampede.Dir {
	t.Helper()
	l := padlock.New(store)
	t.Cleanup(func() { l.Close(context.Background()) })
	d, err := stampede.NewDir(path, l)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// onlyFile returns the path of the only file in dir.
func onlyFile(t *testing.T, dir string) string {
	t.Helper()
	files, err := os.ReadDir(dir)
	if err != nil || len(files) != 1 {
		t.Fatalf("%v, %v", files, err)
	}
	return filepath.Join(dir, files[0].Name())
}

// TestDirAge: Load never returns a value with the age of the value that replaces it.
func TestDirAge(t *testing.T) {
	path := t.TempDir()
	d := newDir(t, path, memstore.New())
	made := map[string]string{} // two files, one of a value that is an hour old
	for value, age := range map[string]time.Duration{"old": time.Hour, "new": 0} {
		if kept, err := d.Store(t.Context(), "k", stampede.Entry{Value: []byte(value), Keep: 24 * time.Hour}); !kept || err != nil {
			t.Fatal(kept, err)
		}
		file := onlyFile(t, path)
		made[value] = filepath.Join(t.TempDir(), value)
		at := time.Now().Add(-age)
		if err := os.Chtimes(file, at, at); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(file, made[value]); err != nil {
			t.Fatal(err)
		}
		made["file"] = file
	}
	stop := make(chan struct{})
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			link := filepath.Join(path, ".link") // hard links have their file's times
			os.Link(made[[]string{"old", "new"}[i%2]], link)
			os.Rename(link, made["file"])
			os.Remove(link)
		}
	}()
	for range 5000 {
		e, err := d.Load(t.Context(), "k")
		if err != nil {
			t.Fatal(err)
		}
		if string(e.Value) == "old" && e.Age < time.Hour || string(e.Value) == "new" && e.Age >= time.Hour {
			t.Errorf("the %s value is %v old", e.Value, e.Age)
			break
		}
	}
	close(stop)
	<-stopped
}

// TestCleanLooksAgain: Clean sees a file that is out of date, and then a Discard replaces the file.
// Clean must not remove the new file.
func TestCleanLooksAgain(t *testing.T) {
	bubble(t, func(t *testing.T) {
		path := t.TempDir()
		store := memstore.New()
		d := newDir(t, path, store.Open())
		if _, err := d.Store(t.Context(), "k", stampede.Entry{Value: []byte("v"), Keep: time.Nanosecond}); err != nil {
			t.Fatal(err)
		}
		file := onlyFile(t, path)
		old := time.Now().Add(-time.Hour) // the clock of the bubble is not the file system's
		if err := os.Chtimes(file, old, old); err != nil {
			t.Fatal(err)
		}
		other := padlock.New(store.Open())
		defer other.Close(context.Background())
		lock, err := other.Acquire(t.Context(), "stampede-dir:"+path+string(filepath.Separator)+filepath.Base(file)[:2])
		if err != nil {
			t.Fatal(err)
		}
		cleaned := make(chan error)
		go func() { cleaned <- d.Clean(t.Context()) }()
		synctest.Wait()
		if _, err := os.Stat(file); err != nil {
			t.Fatal("Clean removes without the lock")
		}
		if err := newDir(t, path, memstore.New()).Discard(t.Context(), "k"); err != nil {
			t.Fatal(err)
		}
		lock.Release()
		if err := <-cleaned; err != nil {
			t.Error(err)
		}
		if e, err := d.Load(t.Context(), "k"); e.Version == 0 || err != nil {
			t.Errorf("Clean removed what a Discard left: %+v, %v", e, err)
		}
	})
}

// TestCleanLeavesOthersFiles: Clean leaves files of other programs alone. It removes values that
// are out of date, and files that a dead process left behind.
func TestCleanLeavesOthersFiles(t *testing.T) {
	path := t.TempDir()
	d := newDir(t, path, memstore.New())
	for _, keep := range []time.Duration{time.Nanosecond, time.Hour} {
		if _, err := d.Store(t.Context(), keep.String(), stampede.Entry{Value: []byte("v"), Keep: keep}); err != nil {
			t.Fatal(err)
		}
	}
	day := time.Now().Add(-24 * time.Hour)
	for _, name := range []string{"README", ".new-1", ".new-2", strings.Repeat("0", 64)} {
		if err := os.WriteFile(filepath.Join(path, name), []byte("no value"), 0o600); err != nil {
			t.Fatal(err)
		}
		if name != ".new-2" {
			os.Chtimes(filepath.Join(path, name), day, day)
		}
	}
	if err := d.Clean(t.Context()); err != nil {
		t.Fatal(err)
	}
	files, _ := os.ReadDir(path)
	var left []string
	for _, f := range files {
		left = append(left, f.Name())
	}
	if len(left) != 3 || left[0] != ".new-2" || left[2] != "README" {
		t.Errorf("left are %v", left)
	}
}

// TestDirLocks: a filestore keeps a file for each name that was locked, so a Dir locks a bounded
// number of names.
func TestDirLocks(t *testing.T) {
	locks := t.TempDir()
	store, err := filestore.Open(locks)
	if err != nil {
		t.Fatal(err)
	}
	d := newDir(t, filepath.Join(t.TempDir(), "cache"), store)
	for i := range 1000 {
		if _, err := d.Store(t.Context(), fmt.Sprint(i), stampede.Entry{Value: []byte("v"), Keep: time.Hour}); err != nil {
			t.Fatal(err)
		}
	}
	files := 0
	filepath.WalkDir(locks, func(_ string, f os.DirEntry, err error) error {
		if err == nil && f.Type().IsRegular() {
			files++
		}
		return err
	})
	if files > 2*256 {
		t.Errorf("%d lock files", files)
	}
}

// TestDirNewerFormat: a value that a newer version wrote counts as absent. Only a worker whose
// fence is at least as great overwrites it.
func TestDirNewerFormat(t *testing.T) {
	ctx := t.Context()
	path := filepath.Join(t.TempDir(), "cache")
	l := padlock.New(memstore.New())
	defer l.Close(context.Background())
	d, err := stampede.NewDir(path, l)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.Store(ctx, "k", stampede.Entry{Value: []byte("v"), Fence: 5, Fresh: time.Hour, Keep: time.Hour}); err != nil {
		t.Fatal(err)
	}
	file := onlyFile(t, path)
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	newer := strings.Replace(string(data), "{", `{"format":2,`, 1)
	if err := os.WriteFile(file, []byte(newer), 0o600); err != nil {
		t.Fatal(err)
	}
	if e, err := d.Load(ctx, "k"); e.Value != nil || err != nil {
		t.Errorf("a value of a newer format: %q, %v", e.Value, err)
	}
	for _, fence := range []uint64{4, 5} {
		kept, err := d.Store(ctx, "k", stampede.Entry{Value: []byte("w"), Fence: fence, Fresh: time.Hour, Keep: time.Hour})
		if kept != (fence == 5) || err != nil {
			t.Errorf("fence %d over 5: %v, %v", fence, kept, err)
		}
	}
	if e, _ := d.Load(ctx, "k"); string(e.Value) != "w" {
		t.Errorf("made anew: %q", e.Value)
	}
}
