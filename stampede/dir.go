package stampede

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/padlock-go/padlock"
)

// Dir keeps values in the files of a directory, one for each key. The processes of one machine can
// share it. Readers take no lock. A value that is out of date is replaced when a caller asks for
// it, and is removed by Clean.
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

// dirHeader is the first line of a file. The value follows it.
type dirHeader struct {
	Format  int           `json:"format,omitempty"` // 0 is the first format; newer versions of padlock write other numbers
	Key     []byte        `json:"key"`
	Fence   uint64        `json:"fence"`
	Version uint64        `json:"version"`
	Fresh   time.Duration `json:"fresh"`
	Keep    time.Duration `json:"keep"`
	Took    time.Duration `json:"took"`
	Size    int           `json:"size"` // -1 if the file has only the version, and no value
}

// NewDir returns a Dir that keeps its values in the directory at path. If the directory does not
// exist, NewDir makes it, with access for this user only. The Dir takes a lock of the given Locker
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

// file returns the path of the file for key. Two keys never share a file.
func (d *Dir) file(key string) string {
	sum := sha256.Sum256([]byte(key))
	return filepath.Join(d.path, hex.EncodeToString(sum[:]))
}

// Load implements Values. A damaged file counts as absent.
func (d *Dir) Load(_ context.Context, key string) (Entry, error) {
	data, age, err := readAged(d.file(key))
	if errors.Is(err, fs.ErrNotExist) {
		return Entry{}, nil
	}
	if err != nil {
		return Entry{}, err
	}
	return parseFile(data, key, age), nil
}

// readAged returns the content of a file and the age of that content. The two belong together, even
// if the file is replaced meanwhile.
func readAged(name string) (data []byte, age time.Duration, err error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, 0, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, 0, err
	}
	data, err = io.ReadAll(f)
	return data, time.Since(info.ModTime()), err
}

func parseFile(data []byte, key string, age time.Duration) Entry {
	line, value, _ := bytes.Cut(data, []byte("\n"))
	var h dirHeader
	if json.Unmarshal(line, &h) != nil || string(h.Key) != key {
		return Entry{}
	}
	switch {
	case age >= h.Keep:
		return Entry{Version: h.Version}
	case h.Format != 0: // a newer padlock wrote the file; the value counts as absent
		return Entry{Version: h.Version, Fence: h.Fence}
	case h.Size != len(value):
		return Entry{Version: h.Version}
	}
	return Entry{Value: value, Fence: h.Fence, Version: h.Version, Age: max(0, age), Fresh: h.Fresh, Keep: h.Keep, Took: h.Took}
}

// Store implements Values.
func (d *Dir) Store(ctx context.Context, key string, e Entry) (kept bool, err error) {
	err = d.replaceEntry(ctx, key, func(old Entry) (*dirHeader, []byte) {
		if old.Version != e.Version || old.Fence > e.Fence {
			return nil, nil
		}
		kept = true
		return &dirHeader{Key: []byte(key), Fence: e.Fence, Version: e.Version, Fresh: e.Fresh, Keep: e.Keep, Took: e.Took, Size: len(e.Value)}, e.Value
	})
	return kept && err == nil, err
}

// Discard implements Values. It writes a file that has a new version and no value. After a day,
// Clean removes this file.
func (d *Dir) Discard(ctx context.Context, key string) error {
	return d.replaceEntry(ctx, key, func(old Entry) (*dirHeader, []byte) {
		version := max(old.Version+1, uint64(time.Now().UnixMicro()))
		return &dirHeader{Key: []byte(key), Version: version, Keep: 24 * time.Hour, Size: -1}, nil
	})
}

// replaceEntry calls update with the old entry of key. It then replaces the file of the entry by
// the header and the value that update has returned. If the header is nil, the file stays as it is.
func (d *Dir) replaceEntry(ctx context.Context, key string, update func(old Entry) (*dirHeader, []byte)) error {
	name := d.file(key)
	return d.locked(ctx, name, func(ctx context.Context) error {
		old, err := d.Load(ctx, key)
		if err != nil {
			return err
		}
		h, value := update(old)
		if h == nil {
			return nil
		}
		line, err := json.Marshal(h)
		if err != nil {
			return err
		}
		return replaceFile(name, append(append(line, '\n'), value...))
	})
}

// locked calls f under the lock of the file called name. The first byte of the name's hash selects
// one of 256 locks, so that the number of locks is bounded.
func (d *Dir) locked(ctx context.Context, name string, f func(context.Context) error) error {
	dir, hash := filepath.Split(name)
	return d.locker.Do(ctx, lockName(d.locker, "stampede-dir:"+dir+hash[:2]), f)
}

func replaceFile(name string, data []byte) error {
	tmp, err := os.CreateTemp(filepath.Dir(name), ".new-*")
	if err != nil {
		return err
	}
	_, err = tmp.Write(data)
	err = errors.Join(err, tmp.Close())
	if err == nil {
		err = os.Rename(tmp.Name(), name)
	}
	if err != nil {
		os.Remove(tmp.Name())
		return fmt.Errorf("stampede: value not kept: %w", err)
	}
	return nil
}

// Clean removes the files of values that are out of date, and files that a dead process left
// behind. It may be called at any time, for example by cron.
func (d *Dir) Clean(ctx context.Context) error {
	files, err := os.ReadDir(d.path)
	if err != nil {
		return err
	}
	for _, f := range files {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := d.clean(ctx, f); err != nil {
			return err
		}
	}
	return nil
}

// clean removes one file if it is out of date. It checks the file again under the lock, because the
// file may have been replaced. A file that Discard has written is out of date after a day.
func (d *Dir) clean(ctx context.Context, f fs.DirEntry) error {
	name := filepath.Join(d.path, f.Name())
	switch {
	case !f.Type().IsRegular():
		return nil
	case f.Name()[0] == '.': // a new file that its writer left behind
		info, err := f.Info()
		if err != nil || time.Since(info.ModTime()) < time.Hour {
			return nil
		}
		return remove(name)
	case len(f.Name()) != 2*sha256.Size || !outOfDate(name):
		return nil
	}
	return d.locked(ctx, name, func(context.Context) error {
		if !outOfDate(name) {
			return nil
		}
		return remove(name)
	})
}

// outOfDate reports whether a file is older than its header allows. A damaged file is always out of
// date. A file that cannot be read counts as up to date.
func outOfDate(name string) bool {
	data, age, err := readAged(name)
	if err != nil {
		return false
	}
	line, _, _ := bytes.Cut(data, []byte("\n"))
	var h dirHeader
	return json.Unmarshal(line, &h) != nil || age >= h.Keep
}
