package stampede

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/padlock-go/padlock"
)

// File sees to it that the file at path exists and is at most maxAge old, or
// somebody is renewing it: then the old one serves meanwhile. If there is none,
// it waits for whoever makes it. After nil the file can be read; readers need
// no lock, since it is replaced in one step and never seen half written.
//
// write is called by one caller at a time, over all processes that share the
// lock store, with a writer into a new file beside the old one. If it fails,
// the old file stays; with StaleIfError it serves, as long as that allows.
// Whether a lost lock is noticed before the replacing is up to timing: a file
// system checks no fences. A process that is killed while it writes leaves its
// new file behind, whose name begins with a dot.
func (c *Cache) File(ctx context.Context, path string, maxAge time.Duration, write func(ctx context.Context, w io.Writer) error, opts ...Option) error {
	path, err := filepath.Abs(path)
	if err != nil {
		return err
	}
	f := file{c: c, path: path, maxAge: maxAge, s: c.defaults, write: write}
	for _, o := range opts {
		o(&f.s)
	}
	age, exists, err := f.age()
	if err != nil || exists && age < maxAge {
		return err
	}
	wait := waitLong
	switch {
	case exists:
		wait = padlock.Wait(0)
	case f.s.waitAtMost > 0:
		wait = padlock.Wait(f.s.waitAtMost)
	}
	err = c.locker.Do(ctx, f.s.prefix+"file:"+path, f.renew, c.lockOptions(&f.s, []padlock.Option{wait})...)
	if exists && errors.Is(err, padlock.ErrHeld) {
		return nil
	}
	return err
}

// Remove removes a cached file. That it is gone already is no error.
func Remove(path string) error {
	if err := os.Remove(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

type file struct {
	c      *Cache
	path   string
	maxAge time.Duration
	s      settings
	write  func(context.Context, io.Writer) error
}

func (f *file) age() (age time.Duration, exists bool, err error) {
	info, err := os.Stat(f.path)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, false, nil
	}
	if err != nil {
		return 0, false, err
	}
	return time.Since(info.ModTime()), true, nil
}

// renew is called under the lock: it looks again, for somebody may have been
// faster.
func (f *file) renew(ctx context.Context) error {
	age, exists, err := f.age()
	if err != nil || exists && age < f.maxAge {
		return err
	}
	err = f.replace(ctx)
	if err != nil && exists && age < f.maxAge+f.s.staleIfError {
		if f.s.onError != nil {
			f.s.onError(f.path, err)
		}
		return nil
	}
	return err
}

// replace writes beside the file and puts the new one in its place.
func (f *file) replace(ctx context.Context) (err error) {
	tmp, err := os.CreateTemp(filepath.Dir(f.path), "."+filepath.Base(f.path)+".*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			tmp.Close()
			os.Remove(tmp.Name())
		}
	}()
	if err := f.write(ctx, tmp); err != nil {
		return err
	}
	if err := tmp.Chmod(f.mode()); err != nil {
		return err
	}
	if err := tmp.Sync(); err != nil {
		return err
	}
	if err := tmp.Close(); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return context.Cause(ctx) // the lock is lost: a newer file may be there
	}
	return os.Rename(tmp.Name(), f.path)
}

// mode is that of the old file, or what any program would give a new one.
func (f *file) mode() fs.FileMode {
	if info, err := os.Stat(f.path); err == nil {
		return info.Mode().Perm()
	}
	return 0o644
}
