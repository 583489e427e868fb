package stampede_test

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/stores/filestore"
	"github.com/padlock-go/padlock/stores/memstore"
	"github.com/padlock-go/padlock/web/stampede"
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

// TestDirFiles: a key with a plain name has a file of that name. All other keys have files too, and
// two keys never share one, so each key finds its own value.
func TestDirFiles(t *testing.T) {
	ctx := t.Context()
	path := t.TempDir()
	d := newDir(t, path, memstore.New())
	long := "stampede:pages:" + strings.Repeat("l", 300) + ".html"
	keys := []string{
		"stampede:pages:front.html", "stampede:pages:Front.html", "stampede:pages:/front.html", "stampede:pages:blog/front.html", "stampede:pages:blog",
		"stampede:pages:blog.html/front.html", "stampede:pages:../front.html", "stampede:pages:.front.html", "stampede:pages:front..html",
		"stampede:pages:front.html.", "stampede:pages:", "stampede:pages/blog:front.html", "stampede:..:front.html", "stampede:pages:front.html\n",
		"", "front.html", "\x00stampede-failure:7", "\xff", "stampede:pages:con.html", long, long + "l",
	}
	for _, key := range keys {
		if kept, err := d.Store(ctx, key, stampede.Entry{Value: []byte("of " + key), Keep: time.Hour}); !kept || err != nil {
			t.Errorf("%q: %v, %v", key, kept, err)
		}
	}
	for _, key := range keys {
		if e, err := d.Load(ctx, key); string(e.Value) != "of "+key || err != nil {
			t.Errorf("%q: %q, %v", key, e.Value, err)
		}
	}
	for name, key := range map[string]string{"pages/front.html": keys[0], "pages/blog/front.html": keys[3]} {
		if data, err := os.ReadFile(filepath.Join(path, filepath.FromSlash(name))); string(data) != "of "+key || err != nil {
			t.Errorf("the file %s: %q, %v", name, data, err)
		}
	}
}

// TestDirPermissions: a user who may not read the directory may not read the files.
func TestDirPermissions(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("Windows has no such permissions")
	}
	path := t.TempDir()
	d := newDir(t, path, memstore.New())
	for _, mode := range []os.FileMode{0o700, 0o755} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		if _, err := d.Store(t.Context(), "stampede:pages:front.html", stampede.Entry{Value: []byte("v"), Keep: time.Hour}); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"front.html", ".front.html"} {
			info, err := os.Stat(filepath.Join(path, "pages", name))
			if err != nil || info.Mode()&^mode != 0 || info.Mode()&0o600 != 0o600 {
				t.Errorf("%s in a directory of %v has %v, %v", name, mode, info.Mode(), err)
			}
		}
	}
}

// TestDirAge: while values are replaced, Load never returns a value with the age or the fence of
// another one.
func TestDirAge(t *testing.T) {
	d := newDir(t, t.TempDir(), memstore.New())
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for fence := uint64(1); ; fence++ {
			select {
			case <-stop:
				return
			default:
			}
			if _, err := d.Store(t.Context(), "k", stampede.Entry{Value: fmt.Appendf(nil, "%9d", fence), Fence: fence, Keep: time.Hour}); err != nil {
				t.Error(err)
				return
			}
		}
	}()
	for range 5000 {
		e, err := d.Load(t.Context(), "k")
		if err != nil {
			t.Fatal(err)
		}
		if e.Value != nil && string(e.Value) != fmt.Sprintf("%9d", e.Fence) {
			t.Errorf("the value %s has the fence %d", e.Value, e.Fence)
			break
		}
	}
	close(stop)
	<-stopped
}

// filesOf returns the paths of the only value in dir and of its header.
func filesOf(t *testing.T, dir string) (file, header string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, strings.Repeat("?", 64)))
	if err != nil || len(files) != 1 {
		t.Fatalf("%v, %v", files, err)
	}
	return files[0], filepath.Join(dir, "."+filepath.Base(files[0]))
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
		file, header := filesOf(t, path)
		old := time.Now().Add(-time.Hour) // the clock of the bubble is not the file system's
		if err := os.Chtimes(header, old, old); err != nil {
			t.Fatal(err)
		}
		other := padlock.New(store.Open())
		defer other.Close(context.Background())
		hash := sha256.Sum256([]byte(file))
		lock, err := other.Acquire(t.Context(), fmt.Sprintf("stampede-dir:%s:%02x", path, hash[0]))
		if err != nil {
			t.Fatal(err)
		}
		cleaned := make(chan error)
		go func() { cleaned <- d.Clean(t.Context()) }()
		synctest.Wait()
		if _, err := os.Stat(header); err != nil {
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
	left1, left2 := ".~"+rand.Text(), ".~"+rand.Text()
	for _, name := range []string{"README", ".htaccess", ".~lock.table.odt#", left1, left2} {
		if err := os.WriteFile(filepath.Join(path, name), []byte("no value"), 0o600); err != nil {
			t.Fatal(err)
		}
		if name != left2 {
			os.Chtimes(filepath.Join(path, name), day, day)
		}
	}
	if err := d.Clean(t.Context()); err != nil {
		t.Fatal(err)
	}
	file, header := filesOf(t, path)
	if err := errors.Join(os.Remove(file), os.Remove(header)); err != nil { // the value that is to be kept
		t.Fatal(err)
	}
	if left, err := filepath.Glob(filepath.Join(path, "*")); len(left) != 4 || err != nil {
		t.Errorf("left are %v, %v", left, err)
	}
}

// TestDirKeepsOthersFiles: a file of another program, at the path of a value or of its header, is
// neither replaced nor removed.
func TestDirKeepsOthersFiles(t *testing.T) {
	path := t.TempDir()
	d := newDir(t, path, memstore.New())
	if err := os.Mkdir(filepath.Join(path, "pages"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"front.html", ".next.html"} {
		file := filepath.Join(path, "pages", name)
		if err := os.WriteFile(file, []byte("theirs"), 0o600); err != nil {
			t.Fatal(err)
		}
		key := "stampede:pages:" + strings.TrimPrefix(name, ".")
		kept, err := d.Store(t.Context(), key, stampede.Entry{Value: []byte("page"), Keep: time.Hour})
		if kept || err == nil || !strings.Contains(err.Error(), file) {
			t.Errorf("Store: %v, %v", kept, err)
		}
		if err := d.Discard(t.Context(), key); err == nil {
			t.Error("Discard succeeds")
		}
		if e, err := d.Load(t.Context(), key); e.Value != nil || err != nil {
			t.Errorf("Load: %q, %v", e.Value, err)
		}
		if got, err := os.ReadFile(file); string(got) != "theirs" {
			t.Errorf("%s has %q, %v", file, got, err)
		}
	}
}

// A crash of the machine leaves a header without contents. The next value replaces it.
func TestDirAfterACrash(t *testing.T) {
	path := t.TempDir()
	d := newDir(t, path, memstore.New())
	for _, header := range []string{"", "\x00\x00\x00"} {
		if err := os.MkdirAll(filepath.Join(path, "pages"), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(path, "pages", ".front.html"), []byte(header), 0o600); err != nil {
			t.Fatal(err)
		}
		kept, err := d.Store(t.Context(), "stampede:pages:front.html", stampede.Entry{Value: []byte("page"), Keep: time.Hour})
		if !kept || err != nil {
			t.Errorf("%q: %v, %v", header, kept, err)
		}
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
		if err := d.Discard(t.Context(), fmt.Sprint(i)); err != nil {
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
	_, header := filesOf(t, path)
	data, err := os.ReadFile(header)
	if err != nil {
		t.Fatal(err)
	}
	newer := strings.Replace(string(data), "{", `{"format":2,`, 1)
	if err := os.WriteFile(header, []byte(newer), 0o600); err != nil {
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

// TestDirWithoutItsValue: a process is killed after it has replaced the header and before it has
// replaced the value. An earlier worker, which is late, still cannot store its value.
func TestDirWithoutItsValue(t *testing.T) {
	ctx := t.Context()
	path := t.TempDir()
	d := newDir(t, path, memstore.New())
	store := func(fence uint64) bool {
		kept, err := d.Store(ctx, "stampede:pages:front.html", stampede.Entry{Value: []byte("page"), Fence: fence, Keep: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		return kept
	}
	for what, damage := range map[string]func(file string) error{
		"an old value": func(file string) error { return os.WriteFile(file, []byte("old"), 0o600) },
		"no value":     os.Remove,
	} {
		if !store(7) {
			t.Fatal("the value was not kept")
		}
		if err := damage(filepath.Join(path, "pages", "front.html")); err != nil {
			t.Fatal(err)
		}
		if store(6) {
			t.Errorf("%s: the value of an earlier worker was kept", what)
		}
	}
}
