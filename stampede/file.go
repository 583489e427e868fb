package stampede

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/padlock-go/padlock"
)

// File makes sure that the file at path exists and is at most maxAge old. If
// another caller is renewing it, the old file serves meanwhile, and File
// returns at once; if there is none, File waits for it. After nil the file can
// be read. Readers need no lock, since the file is replaced in one step and
// never seen half written.
//
// write is called by one caller at a time, over all processes that share the
// lock store, with a writer into a new file in the same directory. TimeLimit
// bounds it. If it fails, the old file stays; with StaleIfError it serves, as
// long as that allows. For ErrorTTL after a failure write is not called again
// in this process.
//
// The new file has the permissions of the old one; if there is none, those
// that the umask leaves of 0666.
//
// Whether a lost lock is noticed before the file is replaced depends on timing:
// a file system checks no fences. A process that is killed while it writes
// leaves its new file behind, whose name begins with a dot.
func (c *Cache) File(ctx context.Context, path string, maxAge time.Duration, write func(ctx context.Context, w io.Writer) error, opts ...Option) error {
	path, err := filepath.Abs(path)
	if err != nil {
		return err
	}
	f := file{j: job{c: c, key: path, s: c.defaults}, path: path, maxAge: maxAge, write: write}
	for _, o := range opts {
		o(&f.j.s)
	}
	f.j.name = f.j.s.prefix + "file:" + path
	age, exists, err := f.age()
	if err != nil || exists && age < maxAge {
		return err
	}
	if err := c.fileFailed(f.j.name); err != nil {
		return f.serveOld(age, exists, err, false)
	}
	wait := padlock.Wait(forever)
	switch {
	case exists:
		wait = padlock.Wait(0)
	case f.j.s.waitAtMost > 0:
		wait = padlock.Wait(f.j.s.waitAtMost)
	}
	wrote := false
	err = c.locker.Do(ctx, lockName(f.j.name), func(ctx context.Context) error {
		wrote = true
		return f.renew(ctx)
	}, c.lockOptions(&f.j.s, []padlock.Option{wait})...)
	if exists && !wrote && errors.Is(err, padlock.ErrHeld) {
		return nil
	}
	return err
}

// fileFailed returns the error of a write that failed less than ErrorTTL ago.
func (c *Cache) fileFailed(name string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.backingOff(name)
}

// Remove removes a cached file. That it is gone already is no error.
func Remove(path string) error {
	if err := os.Remove(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

type file struct {
	j      job // for its name, settings and reports
	path   string
	maxAge time.Duration
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

// renew is called under the lock. It looks again, since another caller may
// have been faster.
func (f *file) renew(ctx context.Context) error {
	age, exists, err := f.age()
	if err != nil || exists && age < f.maxAge {
		return err
	}
	within, cancel := ctx, context.CancelFunc(func() {})
	if limit := f.j.s.timeLimit; limit > 0 {
		within, cancel = context.WithTimeoutCause(ctx, limit, ErrTimeLimit)
	}
	defer cancel()
	err = f.replace(within)
	if err == nil || ctx.Err() != nil {
		return err
	}
	if ttl := f.j.s.errorTTL; ttl > 0 {
		now := time.Now()
		f.j.c.backOff(f.j.name, failure{err, now, now.Add(ttl)})
	}
	return f.serveOld(age, exists, err, true)
}

// serveOld is nil if the old file may serve instead of err.
func (f *file) serveOld(age time.Duration, exists bool, err error, report bool) error {
	if !exists || age >= f.maxAge+f.j.s.staleIfError {
		return err
	}
	if report {
		f.j.report(err)
	}
	return nil
}

// replace writes beside the file and puts the new one in its place.
func (f *file) replace(ctx context.Context) error {
	mode, old := f.mode()
	tmp, err := createBeside(f.path, mode)
	if err != nil {
		return err
	}
	replaced := false
	defer func() { // even if write panics
		if !replaced {
			tmp.Close()
			os.Remove(tmp.Name())
		}
	}()
	if err := f.write(ctx, tmp); err != nil {
		return err
	}
	if old {
		if err := tmp.Chmod(mode); err != nil { // the umask may have taken some of it
			return err
		}
	}
	if err := errors.Join(tmp.Sync(), tmp.Close()); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return context.Cause(ctx) // the lock is lost: a newer file may be there
	}
	if err := os.Rename(tmp.Name(), f.path); err != nil {
		return err
	}
	replaced = true
	return nil
}

// mode is that of the old file, if there is one, or what any program asks for
// and the umask reduces.
func (f *file) mode() (mode fs.FileMode, old bool) {
	if info, err := os.Stat(f.path); err == nil {
		return info.Mode().Perm(), true
	}
	return 0o666, false
}

// createBeside makes a new file in the directory of path.
func createBeside(path string, mode fs.FileMode) (*os.File, error) {
	name := filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+"."+rand.Text())
	return os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, mode)
}
