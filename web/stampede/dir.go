package stampede

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"time"

	"github.com/padlock-go/padlock"
)

// Dir keeps values in the files of a directory, one for each key. The processes of one machine can
// share it. Readers take no lock: a file is replaced in one step, so they never see an incomplete
// one. A value that is out of date is replaced when a caller asks for it, and is removed by Clean.
//
// A web server can send the files. The value of the key "blog/first.html" of the Cache "pages" is
// in the file pages/blog/first.html of the directory. The name of the Cache and the parts of the
// key consist of small letters, digits, "-" and "_", the last part of the key has a dot as well,
// and both together have at most 200 bytes. The file of any other key has a hash for its name. With
// a string or a []byte, the file contains the value and nothing else. A second file, whose name
// begins with a dot, has the version, the fence and the times.
//
// Changes are made under one of 256 locks of each directory, however many keys there are. But the
// Cache takes a lock for each key, and a filestore keeps a small file for every name that was ever
// locked. If visitors can choose the keys, these small files may become very many. Then use another
// store for the locks, or give the filestore a directory that is emptied at each start of the
// machine, such as /run.
type Dir struct {
	path   string
	locker *padlock.Locker
}

// dirHeader is the content of the file beside the value's file.
type dirHeader struct {
	Format  int           `json:"format,omitempty"` // 0 is the first format; newer versions of padlock write other numbers
	Key     []byte        `json:"key"`
	Fence   uint64        `json:"fence"`
	Version uint64        `json:"version"`
	Fresh   time.Duration `json:"fresh"`
	Keep    time.Duration `json:"keep"`
	Took    time.Duration `json:"took"`
	Size    int           `json:"size"` // -1 if there is only the version, and no value
	Sum     uint32        `json:"sum"`  // the CRC-32 of the value: the two files are not replaced in one step
}

// NewDir returns a Dir that keeps its values in the directory at path. If the directory does not
// exist, NewDir makes it, with access for this user only. A user who may read the directory may
// also read its files, as far as the umask allows. The Dir takes a lock of the given Locker
// whenever it changes a file. So processes that share the directory must also share the store of
// the Locker, for example a filestore.
func NewDir(path string, locker *padlock.Locker) (*Dir, error) {
	if locker == nil {
		return nil, errors.New("stampede: NewDir: the Locker is nil")
	}
	path, err := filepath.Abs(path) // the path is part of the locks' names
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, err
	}
	return &Dir{path, locker}, nil
}

// readable matches the keys whose files have a readable name. A directory has no dot and a file has
// one, so no file stands in the way of a directory.
var readable = regexp.MustCompile(`^stampede:([a-z0-9_-]+):((?:[a-z0-9_-]+/)*[a-z0-9_-]+(?:\.[a-z0-9_-]+)+)$`)

// file returns the path of the file for key. Two keys never share a file.
func (d *Dir) file(key string) string {
	if parts := readable.FindStringSubmatch(key); parts != nil && len(key) <= 200 {
		if name := filepath.Join(parts[1], parts[2]); filepath.IsLocal(name) { // Windows reserves some names
			return filepath.Join(d.path, name)
		}
	}
	sum := sha256.Sum256([]byte(key))
	return filepath.Join(d.path, hex.EncodeToString(sum[:]))
}

// headerOf returns the path of the header of the value in the file called name.
func headerOf(name string) string {
	return filepath.Join(filepath.Dir(name), "."+filepath.Base(name))
}

// Load implements Values. A damaged file counts as absent.
func (d *Dir) Load(_ context.Context, key string) (Entry, error) {
	name := d.file(key)
	h, age, err := readHeader(name)
	if err != nil || string(h.Key) != key {
		return Entry{}, err
	}
	switch {
	case age >= h.Keep, h.Size < 0:
		return Entry{Version: h.Version}, nil
	case h.Format != 0: // a newer padlock wrote the file; the value counts as absent
		return Entry{Version: h.Version, Fence: h.Fence}, nil
	}
	value, err := os.ReadFile(name)
	switch {
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return Entry{}, err
	case err != nil || len(value) != h.Size || crc32.ChecksumIEEE(value) != h.Sum:
		return Entry{Version: h.Version, Fence: h.Fence}, nil // a worker with a smaller fence is still late
	}
	return Entry{Value: value, Fence: h.Fence, Version: h.Version, Age: max(0, age), Fresh: h.Fresh, Keep: h.Keep, Took: h.Took}, nil
}

// readHeader returns the header of the file called name, and the age of that header. The two belong
// together, even if the header is replaced meanwhile. A header that is absent or damaged is empty.
func readHeader(name string) (h dirHeader, age time.Duration, err error) {
	f, err := os.Open(headerOf(name))
	if errors.Is(err, fs.ErrNotExist) {
		return h, 0, nil
	}
	if err != nil {
		return h, 0, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return h, 0, err
	}
	data, err := io.ReadAll(f)
	if json.Unmarshal(data, &h) != nil {
		h = dirHeader{}
	}
	return h, time.Since(info.ModTime()), err
}

// Store implements Values.
func (d *Dir) Store(ctx context.Context, key string, e Entry) (kept bool, err error) {
	name := d.file(key)
	err = d.locked(ctx, name, func(ctx context.Context) error {
		old, err := d.loadOwn(ctx, key, name)
		if err != nil || old.Version != e.Version || old.Fence > e.Fence {
			return err
		}
		kept = true
		return d.replace(name, &dirHeader{
			Key: []byte(key), Fence: e.Fence, Version: e.Version, Fresh: e.Fresh, Keep: e.Keep, Took: e.Took,
			Size: len(e.Value), Sum: crc32.ChecksumIEEE(e.Value),
		}, e.Value)
	})
	return kept && err == nil, err
}

// Discard implements Values. It removes the value's file, and writes a new version into the header.
// After a day, Clean removes the header.
func (d *Dir) Discard(ctx context.Context, key string) error {
	name := d.file(key)
	return d.locked(ctx, name, func(ctx context.Context) error {
		old, err := d.loadOwn(ctx, key, name)
		if err == nil {
			err = remove(name)
		}
		if err != nil {
			return err
		}
		version := max(old.Version+1, uint64(time.Now().UnixMicro()))
		return d.replace(name, &dirHeader{Key: []byte(key), Version: version, Keep: 24 * time.Hour, Size: -1}, nil)
	})
}

// loadOwn is Load, for a caller that is about to replace the file called name. It returns an error
// if another program made that file or the file of its header.
func (d *Dir) loadOwn(ctx context.Context, key, name string) (Entry, error) {
	header, err := os.ReadFile(headerOf(name))
	foreign := headerOf(name)
	if errors.Is(err, fs.ErrNotExist) {
		foreign = name
		if _, err = os.Lstat(name); errors.Is(err, fs.ErrNotExist) {
			return d.Load(ctx, key)
		}
	}
	if err != nil {
		return Entry{}, err
	}
	var h dirHeader
	// A crash of the machine may leave a header empty or full of zeros, because it is not synced.
	crashed := len(bytes.Trim(header, "\x00")) == 0 && foreign != name
	if !crashed && (json.Unmarshal(header, &h) != nil || len(h.Key) == 0) {
		return Entry{}, fmt.Errorf("stampede: %s is no file of padlock, which leaves it alone: move it away, or use another directory", foreign)
	}
	return d.Load(ctx, key)
}

func remove(path string) error {
	if err := os.Remove(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// locked calls f under the lock of the file called name. The first byte of the name's hash selects
// one of 256 locks, so that the number of locks is bounded.
func (d *Dir) locked(ctx context.Context, name string, f func(context.Context) error) error {
	hash := sha256.Sum256([]byte(name))
	return d.locker.Do(ctx, lockName(d.locker, fmt.Sprintf("stampede-dir:%s:%02x", d.path, hash[0])), f)
}

// replace replaces the file called name, if the header says that there is a value, and its header.
// A reader that comes between the two steps finds that the value does not fit the header.
func (d *Dir) replace(name string, h *dirHeader, value []byte) error {
	line, err := json.Marshal(h)
	if err != nil {
		return err
	}
	header, err := d.writeNew(name, line, false)
	if err != nil {
		return err
	}
	defer os.Remove(header)
	if h.Size < 0 {
		return os.Rename(header, headerOf(name))
	}
	file, err := d.writeNew(name, value, true)
	if err != nil {
		return err
	}
	defer os.Remove(file)
	if err := os.Rename(header, headerOf(name)); err != nil {
		return err
	}
	return os.Rename(file, name)
}

// newPrefix begins the names of new files. No header has such a name.
const newPrefix = ".~"

// newName matches the names that writeNew gives. Other programs make files like .~lock.a.odt#.
var newName = regexp.MustCompile(`^\.~[A-Z2-7]{26,}$`)

// writeNew writes data to a new file in the directory of the file called name, and returns the path
// of the new file. With sync, a crash of the machine cannot leave the new file incomplete: a web
// server does not check the sum.
func (d *Dir) writeNew(name string, data []byte, sync bool) (path string, err error) {
	dir, err := os.Stat(d.path)
	if err != nil {
		return "", err
	}
	mode := dir.Mode().Perm()
	if err := os.MkdirAll(filepath.Dir(name), mode); err != nil {
		return "", err
	}
	path = filepath.Join(filepath.Dir(name), newPrefix+rand.Text())
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode&0o666)
	if err != nil {
		return "", err
	}
	_, err = f.Write(data)
	if err == nil && sync {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		os.Remove(path)
		return "", fmt.Errorf("stampede: value not kept: %w", err)
	}
	return path, nil
}

// Clean removes the files of values that are out of date, and files that a dead process left
// behind. It may be called at any time, for example by cron. It leaves other files alone.
func (d *Dir) Clean(ctx context.Context) error {
	return filepath.WalkDir(d.path, func(path string, f fs.DirEntry, err error) error {
		switch {
		case err != nil && path != d.path && errors.Is(err, fs.ErrNotExist):
			return nil
		case err != nil:
			return err
		case path == d.path && !f.IsDir():
			return fmt.Errorf("stampede: %s is not a directory", path)
		case ctx.Err() != nil:
			return ctx.Err()
		case f.Type().IsRegular() && f.Name()[0] == '.':
			return d.clean(ctx, path, f)
		}
		return nil
	})
}

// clean removes one header, and its value, if they are out of date. It checks the header again
// under the lock, because it may have been replaced. A header that Discard has written is out of
// date after a day.
func (d *Dir) clean(ctx context.Context, path string, f fs.DirEntry) error {
	if newName.MatchString(f.Name()) { // a new file that its writer left behind
		info, err := f.Info()
		if err != nil || time.Since(info.ModTime()) < time.Hour {
			return nil
		}
		return remove(path)
	}
	name := filepath.Join(filepath.Dir(path), f.Name()[1:])
	if !d.outOfDate(name) {
		return nil
	}
	return d.locked(ctx, name, func(context.Context) error {
		if !d.outOfDate(name) {
			return nil
		}
		return errors.Join(remove(name), remove(path))
	})
}

// outOfDate reports whether the file called name is older than its header allows. A file that
// cannot be read, or that belongs to another program, counts as up to date.
func (d *Dir) outOfDate(name string) bool {
	h, age, err := readHeader(name)
	return err == nil && len(h.Key) > 0 && d.file(string(h.Key)) == name && age >= h.Keep
}
