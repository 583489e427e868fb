// Package recordfile keeps the records of fast.Recorder in a directory. The packages history and
// filestore use it.
//
// Each name has a directory, and each record is a file in that directory. A writer gives the file a
// temporary name, and renames the file when it is complete. So writers need no lock, and a reader
// sees whole records only. A process that is killed may leave a temporary file, which a later
// writer removes.
package recordfile

import (
	"cmp"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"sort"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/driver/fast"
)

// Names of the files. A directory of this package may hold other files too; they are left alone.
const (
	dirPrefix  = "runs."     // runs.READABLE.HASH is the directory of a name
	fileSuffix = ".run"      // ID.run is a record
	tempSuffix = ".run.temp" // RANDOM.run.temp is a record that is being written
)

// MaxNames is how many names a directory keeps, those of all places together. If there are more
// names, the names that have not been used for the longest time are removed.
const MaxNames = 1000

// orphanAge is the age at which a temporary file counts as left behind by a killed process.
const orphanAge = time.Hour

// Dir keeps records in a directory. Its methods are safe for concurrent use, even by several
// processes. Errors are errors of package fs.
type Dir struct {
	Path  string
	Place string // the store to which the records belong; "" for the store that owns the directory
	Group bool   // the members of the directory's group may write
}

// Write adds records to the directory of a name. If there are too many records, it removes the
// oldest. The caller has checked the arguments.
func (d Dir) Write(name string, records []fast.Record) error {
	dir, err := d.make(name)
	if err != nil {
		return err
	}
	for _, r := range records {
		text := strconv.QuoteToASCII(name) + "\n" + r.Text + "\n"
		if err := d.replace(filepath.Join(dir, r.ID+fileSuffix), text); err != nil {
			return err
		}
	}
	return trim(dir)
}

// make makes the directory of a name.
func (d Dir) make(name string) (string, error) {
	dir := d.dirOf(name)
	err := os.Mkdir(dir, d.perm(0o700))
	if errors.Is(err, fs.ErrNotExist) {
		if err = os.MkdirAll(d.Path, 0o700); err == nil {
			err = d.openToGroup(d.Path)
		}
		if err == nil {
			err = os.Mkdir(dir, d.perm(0o700))
		}
	}
	switch {
	case errors.Is(err, fs.ErrExist):
		return dir, nil
	case err != nil:
		return "", err
	}
	d.limitNames()
	return dir, d.openToGroup(dir)
}

// openToGroup gives the group access to a directory that this process has made.
func (d Dir) openToGroup(dir string) error {
	if !d.Group {
		return nil
	}
	return os.Chmod(dir, 0o770|fs.ModeSetgid)
}

func (d Dir) perm(private fs.FileMode) fs.FileMode {
	if d.Group {
		return private | private>>3
	}
	return private
}

// replace writes a new file and renames it to path, so that readers never see half a file. If there
// is no room for a new file, replace overwrites the old file instead, because that needs no more
// room.
func (d Dir) replace(path, text string) error {
	temp := filepath.Join(filepath.Dir(path), rand.Text()+tempSuffix)
	err := writeNew(temp, text, d.perm(0o600))
	if err == nil {
		if err = os.Rename(temp, path); err == nil {
			return nil
		}
	}
	_ = os.Remove(temp) // a later writer removes it
	if overwrite(path, text) == nil {
		return nil
	}
	return err
}

func writeNew(path, text string, perm fs.FileMode) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, perm)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return cmp.Or(err, f.Chmod(perm), f.Close())
}

// overwrite writes text into a file that exists, and removes the rest of the file. A reader that
// opens the file meanwhile gets a text that it cannot decode, and skips that record.
func overwrite(path, text string) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return cmp.Or(err, f.Truncate(int64(len(text))), f.Close())
}

// trim keeps the last fast.MaxRecords records of each series, in the order of their IDs, and
// removes the others. It also removes old temporary files, which were left by killed processes.
func trim(dir string) error {
	entries, err := os.ReadDir(dir) // sorted by file name
	if err != nil {
		return err
	}
	series := map[byte][]string{}
	for _, e := range entries {
		if id, ok := recordID(e.Name()); ok {
			series[id[0]] = append(series[id[0]], id)
			continue
		}
		if info, err := e.Info(); err == nil && isTemp(e.Name()) && time.Since(info.ModTime()) > orphanAge {
			_ = os.Remove(filepath.Join(dir, e.Name()))
		}
	}
	for _, ids := range series {
		slices.Sort(ids) // ReadDir sorts whole file names, so it returns "a-b.run" before "a.run"
		for _, id := range ids[:max(0, len(ids)-fast.MaxRecords)] {
			_ = os.Remove(filepath.Join(dir, id+fileSuffix)) // another process may have removed it
		}
	}
	return nil
}

// limitNames removes names if there are more than MaxNames. It removes the names that have not been
// used for the longest time.
func (d Dir) limitNames() {
	dirs, _ := d.newestFirst() // those that can be read; a later writer removes the others
	for _, dir := range dirs[min(len(dirs), MaxNames):] {
		removeName(dir)
	}
}

// newestFirst returns the directories of all names, beginning with the one that was used last. After
// an error, it returns those that it could read. It leaves out those whose time is unknown.
func (d Dir) newestFirst() ([]string, error) {
	dirs, err := d.dirs()
	used := map[string]time.Time{}
	dirs = slices.DeleteFunc(dirs, func(dir string) bool {
		info, err := os.Stat(dir)
		if err == nil {
			used[dir] = info.ModTime() // each record changes it
		}
		return err != nil
	})
	slices.SortFunc(dirs, func(a, b string) int { return used[b].Compare(used[a]) })
	return dirs, err
}

// removeName removes the records of a name, and the directory, unless it has other files.
func removeName(dir string) {
	entries, _ := os.ReadDir(dir) // remove the entries that can be read
	for _, e := range entries {
		if _, ok := recordID(e.Name()); ok || isTemp(e.Name()) {
			_ = os.Remove(filepath.Join(dir, e.Name()))
		}
	}
	_ = os.Remove(dir)
}

// recordID returns the ID of the record in a file. ok is false for a file that has another name
// than padlock gives.
func recordID(file string) (id string, ok bool) {
	id, ok = strings.CutSuffix(file, fileSuffix)
	return id, ok && fast.CheckRecords([]fast.Record{{ID: id, Text: "-"}}) == nil
}

// isTemp reports whether padlock gave a temporary file its name.
func isTemp(file string) bool {
	random, ok := strings.CutSuffix(file, tempSuffix)
	return ok && tempName().MatchString(random)
}

var (
	tempName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Z2-7]{26,}$`) }) // as rand.Text makes it
	nameDir  = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^runs\.[A-Za-z0-9_-]{0,40}\.[0-9a-f]{16}$`) })
)

// dirs returns the directories of all names. After an error, it returns those that it could read.
func (d Dir) dirs() (dirs []string, err error) {
	entries, err := os.ReadDir(d.Path)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	for _, e := range entries {
		if e.IsDir() && nameDir().MatchString(e.Name()) {
			dirs = append(dirs, filepath.Join(d.Path, e.Name()))
		}
	}
	return dirs, err
}

// Read returns the records of a name, sorted by ID. It skips a record that is damaged, but not one
// that cannot be read: after an error, it returns those that it could read.
func (d Dir) Read(name string) ([]fast.Record, error) {
	dir := d.dirOf(name)
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var records []fast.Record
	for _, e := range entries {
		if id, ok := strings.CutSuffix(e.Name(), fileSuffix); ok && e.Type().IsRegular() {
			of, text, unread := readRecord(filepath.Join(dir, e.Name()))
			err = cmp.Or(err, unread)
			if r := (fast.Record{ID: id, Text: text}); of == name && fast.CheckRecords([]fast.Record{r}) == nil {
				records = append(records, r)
			}
		}
	}
	sort.Slice(records, func(i, j int) bool { return records[i].ID < records[j].ID })
	return records, err
}

// Newest returns the records of the names that begin with prefix, those of at most so many names for
// which something was recorded last. After an error, it returns those that it could read.
func (d Dir) Newest(prefix string, most int) (map[string][]fast.Record, error) {
	all := map[string][]fast.Record{}
	dirs, err := d.newestFirst()
	for _, dir := range dirs {
		if len(all) == most {
			break
		}
		name, unread := d.nameIn(dir)
		if name != "" && strings.HasPrefix(name, prefix) {
			all[name], unread = d.Read(name)
		}
		err = cmp.Or(err, unread)
	}
	return all, err
}

// nameIn returns the name to which dir belongs, or "" if it belongs to another place. It finds the
// name in the first record that can be read. If there is none, it returns why one cannot be read.
func (d Dir) nameIn(dir string) (string, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil // another process has removed it
	}
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), fileSuffix) || !e.Type().IsRegular() {
			continue
		}
		name, _, unread := readRecord(filepath.Join(dir, e.Name()))
		if name != "" && d.dirOf(name) == dir {
			return name, nil
		}
		err = cmp.Or(err, unread)
	}
	return "", err
}

// maxFile is greater than the size of any record's file, in bytes.
const maxFile = 4*driver.MaxName + fast.MaxRecord + 4

// readRecord reads a file. The results are empty if the file is not a record, or was removed.
func readRecord(path string) (name, text string, err error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", "", nil
	}
	if err != nil {
		return "", "", err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxFile))
	quoted, text, ok := strings.Cut(string(b), "\n")
	text, ended := strings.CutSuffix(text, "\n")
	name, bad := strconv.Unquote(quoted)
	if err != nil || bad != nil || !ok || !ended {
		return "", "", err
	}
	return name, text, nil
}

// dirOf returns the directory of a name.
func (d Dir) dirOf(name string) string { return filepath.Join(d.Path, d.dirName(name)) }

// dirName is unique for each place and name, even where the file system ignores case.
func (d Dir) dirName(name string) string {
	sum := sha256.Sum256([]byte(name))
	if d.Place != "" {
		place := sha256.Sum256([]byte(d.Place))
		sum = sha256.Sum256(append(place[:], sum[:]...))
	}
	plain := strings.Map(func(c rune) rune {
		if 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '-' || c == '_' {
			return c
		}
		return '-'
	}, name)
	return fmt.Sprintf("%s%.40s.%s", dirPrefix, plain, hex.EncodeToString(sum[:8]))
}
