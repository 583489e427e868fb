package stampede

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/padlock-go/padlock"
)

// Dir keeps values in the files of a directory, one for each key, for the
// processes of one machine. Readers take no lock. What is out of date is
// replaced when it is asked for, and removed by Clean.
type Dir struct {
	path   string
	locker *padlock.Locker
}

// dirHeader is the first line of a file; the value follows.
type dirHeader struct {
	Key     []byte        `json:"key"`
	Fence   uint64        `json:"fence"`
	Version uint64        `json:"version"`
	Fresh   time.Duration `json:"fresh"`
	Keep    time.Duration `json:"keep"`
	Took    time.Duration `json:"took"`
	Size    int           `json:"size"` // -1: no value, only the version
}

// NewDir returns values in the directory at path, which it makes if it is not
// there, for this user only. Changes are made under locks of locker, which is
// to have a store that the same processes share: filestore, for example.
func NewDir(path string, locker *padlock.Locker) (*Dir, error) {
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, err
	}
	return &Dir{path, locker}, nil
}

// file is where the value of key is; two keys never share it.
func (d *Dir) file(key string) string {
	sum := sha256.Sum256([]byte(key))
	return filepath.Join(d.path, hex.EncodeToString(sum[:]))
}

// Load implements Values. A damaged file counts as absent.
func (d *Dir) Load(_ context.Context, key string) (Entry, error) {
	name := d.file(key)
	data, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return Entry{}, nil
	}
	if err != nil {
		return Entry{}, err
	}
	info, err := os.Stat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return Entry{}, nil
	}
	if err != nil {
		return Entry{}, err
	}
	return parseFile(data, key, time.Since(info.ModTime())), nil
}

func parseFile(data []byte, key string, age time.Duration) Entry {
	line, value, _ := bytes.Cut(data, []byte("\n"))
	var h dirHeader
	if json.Unmarshal(line, &h) != nil || string(h.Key) != key {
		return Entry{}
	}
	if h.Size != len(value) || age >= h.Keep {
		return Entry{Version: h.Version}
	}
	return Entry{Value: value, Fence: h.Fence, Version: h.Version, Age: max(0, age), Fresh: h.Fresh, Keep: h.Keep, Took: h.Took}
}

// Store implements Values.
func (d *Dir) Store(ctx context.Context, key string, e Entry) (kept bool, err error) {
	err = d.change(ctx, key, func(old Entry) (*dirHeader, []byte) {
		if old.Version != e.Version || !old.absent() && old.Fence > e.Fence {
			return nil, nil
		}
		kept = true
		return &dirHeader{[]byte(key), e.Fence, e.Version, e.Fresh, e.Keep, e.Took, len(e.Value)}, e.Value
	})
	return kept && err == nil, err
}

// Discard implements Values. The version outlives the value, in a file that
// Clean leaves alone for a day.
func (d *Dir) Discard(ctx context.Context, key string) error {
	return d.change(ctx, key, func(old Entry) (*dirHeader, []byte) {
		version := max(old.Version+1, uint64(time.Now().UnixMicro()))
		return &dirHeader{Key: []byte(key), Version: version, Keep: 24 * time.Hour, Size: -1}, nil
	})
}

// change replaces the file of key by what f makes of the old entry; nil
// changes nothing.
func (d *Dir) change(ctx context.Context, key string, f func(old Entry) (*dirHeader, []byte)) error {
	name := d.file(key)
	return d.locker.Do(ctx, "stampede-dir:"+name, func(ctx context.Context) error {
		old, err := d.Load(ctx, key)
		if err != nil {
			return err
		}
		h, value := f(old)
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

// Clean removes the files of values that are out of date, and what a process
// that died left behind. It may be called at any time, by cron for example.
func (d *Dir) Clean(ctx context.Context) error {
	files, err := os.ReadDir(d.path)
	if err != nil {
		return err
	}
	for _, f := range files {
		if err := ctx.Err(); err != nil {
			return err
		}
		info, err := f.Info()
		if err != nil || !info.Mode().IsRegular() {
			continue
		}
		name := filepath.Join(d.path, f.Name())
		age := time.Since(info.ModTime())
		if isNew := f.Name()[0] == '.'; isNew && age < time.Hour || !isNew && age < keepOf(name) {
			continue
		}
		if err := Remove(name); err != nil {
			return err
		}
	}
	return nil
}

// keepOf is how long the file at name is to be kept; a damaged one not at all.
func keepOf(name string) time.Duration {
	data, err := os.ReadFile(name)
	if err != nil {
		return 0
	}
	line, _, _ := bytes.Cut(data, []byte("\n"))
	var h dirHeader
	if json.Unmarshal(line, &h) != nil {
		return 0
	}
	return h.Keep
}
