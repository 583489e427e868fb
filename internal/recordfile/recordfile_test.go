package recordfile

import (
	"crypto/rand"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/driver/fast"
	"github.com/padlock-go/padlock/internal/server"
)

func write(t *testing.T, d Dir, name, id string) {
	t.Helper()
	if err := d.Write(name, []fast.Record{{ID: id, Text: "text of " + id}}); err != nil {
		t.Fatal(err)
	}
}

func wantIDs(t *testing.T, d Dir, name string, want int) {
	t.Helper()
	if got, err := d.Read(name); err != nil || len(got) != want {
		t.Errorf("%q has %d records, want %d; %v", name, len(got), want, err)
	}
}

// Many writers of one name lose nothing and leave nothing behind.
func TestManyWriters(t *testing.T) {
	t.Parallel()
	d := Dir{Path: filepath.Join(t.TempDir(), "new", "history")}
	var writers sync.WaitGroup
	for w := range 8 {
		writers.Go(func() {
			for i := range 20 {
				if err := d.Write("name", []fast.Record{{ID: fmt.Sprintf("r%d-%d", i, w), Text: "x"}}); err != nil {
					t.Error(err)
				}
				if _, err := d.Read("name"); err != nil {
					t.Error(err)
				}
			}
		})
	}
	writers.Wait()
	wantIDs(t, d, "name", fast.MaxRecords)
	files, err := os.ReadDir(d.dirOf("name"))
	if err != nil || len(files) != fast.MaxRecords {
		t.Errorf("there are %d files, %v", len(files), err)
	}
}

// The names that were unused longest are removed, and other files of the directory stay.
func TestNamesAreBounded(t *testing.T) {
	server.Thorough(t)
	t.Parallel()
	d := Dir{Path: t.TempDir()}
	strange := filepath.Join(d.Path, "mine")
	if err := os.Mkdir(strange, 0o700); err != nil {
		t.Fatal(err)
	}
	for i := range MaxNames + 3 {
		name := fmt.Sprint("name", i)
		write(t, d, name, "r")
		at := time.Now().Add(time.Duration(i-2*MaxNames) * time.Minute)
		if err := os.Chtimes(d.dirOf(name), at, at); err != nil {
			t.Fatal(err)
		}
	}
	names, err := d.Newest("", 2*MaxNames)
	if err != nil || len(names) != MaxNames {
		t.Errorf("there are %d names, %v", len(names), err)
	}
	wantIDs(t, d, "name0", 0)
	wantIDs(t, d, fmt.Sprint("name", MaxNames+2), 1)
	if _, err := os.Stat(strange); err != nil {
		t.Error(err)
	}
}

// A writer that was killed leaves a file, which is removed when it is old.
func TestOrphans(t *testing.T) {
	t.Parallel()
	d := Dir{Path: t.TempDir()}
	write(t, d, "name", "r1")
	old, young := filepath.Join(d.dirOf("name"), rand.Text()+tempSuffix), filepath.Join(d.dirOf("name"), rand.Text()+tempSuffix)
	for _, file := range []string{old, young} {
		if err := os.WriteFile(file, []byte("half"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	long := time.Now().Add(-2 * orphanAge)
	if err := os.Chtimes(old, long, long); err != nil {
		t.Fatal(err)
	}
	write(t, d, "name", "r2")
	wantIDs(t, d, "name", 2)
	if _, err := os.Stat(old); err == nil {
		t.Error("the old file is still there")
	}
	if _, err := os.Stat(young); err != nil {
		t.Error(err)
	}
}

// Only this user, or the group, can read and write.
func TestModes(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("Windows has access lists")
	}
	for group, want := range map[bool][2]os.FileMode{false: {0o700, 0o600}, true: {0o770, 0o660}} {
		d := Dir{Path: filepath.Join(t.TempDir(), "history"), Group: group}
		write(t, d, "name", "r")
		for path, mode := range map[string]os.FileMode{d.Path: want[0], d.dirOf("name"): want[0], filepath.Join(d.dirOf("name"), "r.run"): want[1]} {
			if info, err := os.Stat(path); err != nil || info.Mode().Perm() != mode {
				t.Errorf("group %v: %s has mode %v, %v", group, path, info.Mode(), err)
			}
		}
	}
}

// Names that differ only in case, or only in characters that a file name cannot have, have
// different directories.
func TestDirNames(t *testing.T) {
	t.Parallel()
	seen := map[string]string{}
	for _, name := range []string{"a", "A", "a/b", "a-b", "a\\b", "a:b", "", ".", "..", "\x00", "CON", string(make([]byte, driver.MaxName))} {
		dir := Dir{}.dirName(name)
		if seen[dir] != "" || len(dir) > 80 || filepath.Base(dir) != dir {
			t.Errorf("%q has the directory %q, as has %q", name, dir, seen[dir])
		}
		seen[dir] = name
	}
}

// Files and directories of other programs stay, even if their names look like padlock's.
func TestFilesOfOtherProgramsStay(t *testing.T) {
	t.Parallel()
	d := Dir{Path: t.TempDir()}
	write(t, d, "name", "r")
	theirs := []string{"runs.2024/a.run", "runs.x.backup/b.run.temp", "notes", d.dirName("name") + "/Z9.run", d.dirName("name") + "/z.run.temp"}
	old := time.Now().Add(-48 * time.Hour)
	for _, file := range theirs {
		path := filepath.Join(d.Path, file)
		err := os.MkdirAll(filepath.Dir(path), 0o700)
		if err == nil {
			err = os.WriteFile(path, nil, 0o600)
		}
		if err == nil {
			err = os.Chtimes(path, old, old)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for i := range fast.MaxRecords + 5 { // trims the records of the name
		write(t, d, "name", fmt.Sprintf("r%d", i))
	}
	for range 2 {
		for i := range fast.MaxRecords { // of another series, as theirs would be
			write(t, d, "name", fmt.Sprintf("z%d", i))
		}
	}
	if dirs, _ := d.dirs(); len(dirs) != 1 {
		t.Errorf("directories of names: %q", dirs)
	}
	removeName(d.dirOf("name"))
	wantIDs(t, d, "name", 0)
	for _, file := range theirs {
		if _, err := os.Stat(filepath.Join(d.Path, file)); err != nil {
			t.Error(err)
		}
	}
}
