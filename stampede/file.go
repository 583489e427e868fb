package stampede

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/padlock-go/padlock"
)

// Files makes files and keeps them up to date, for example pages that a web server sends. Callers
// that share a lock store never make the same file at the same time, even if they are in different
// processes. Readers need no lock: a file is replaced in one step, so they never see an incomplete
// file. Files is safe for concurrent use and need not be closed.
type Files struct {
	locker   *padlock.Locker
	maxAge   time.Duration
	write    func(ctx context.Context, path string, w io.Writer) error
	settings settings

	mu         sync.Mutex
	backingOff *lru[failure] // by lock name
}

// NewFiles returns a Files. Its method Ensure makes a file again when the file is older than
// maxAge. To do that, Ensure takes a lock of the Locker and calls the function write with the path
// that was given to Ensure. The function writes to w, which is a temporary file in the same
// directory. When the function has returned without an error, the temporary file replaces the file
// at the path. The function's context ends when the lock is lost and when TimeLimit is over.
//
// If the function fails, the old file stays, and Ensure returns the error. With StaleIfError,
// Ensure returns nil instead, because the old file may still be used. This process does not call
// the function again for the same path until ErrorTTL is over.
//
// The new file has the permissions of the old file. If there is no old file, the permissions are
// 0666 reduced by the umask.
//
// A file system does not check fences. So if the lock is lost just before the file is replaced,
// Files may not notice the loss. A process that is killed while it writes leaves its temporary file
// behind. The name of that file begins with a dot.
//
// Files does not close the Locker. NewFiles returns an error if the arguments or options are
// invalid.
func NewFiles(locker *padlock.Locker, maxAge time.Duration, write func(ctx context.Context, path string, w io.Writer) error, opts ...FileOption) (*Files, error) {
	s := defaults()
	s.ttl = maxAge
	for _, o := range opts {
		if o == nil {
			return nil, errors.New("stampede: NewFiles: an Option is nil")
		}
		o.applyFile(&s)
	}
	err := s.check()
	switch {
	case locker == nil:
		err = errors.New("the Locker is nil")
	case write == nil:
		err = errors.New("the function is nil")
	}
	if err != nil {
		return nil, fmt.Errorf("stampede: NewFiles: %w", err)
	}
	return &Files{locker: locker, maxAge: maxAge, write: write, settings: s, backingOff: newLRU[failure](maxRemembered)}, nil
}

// Ensure makes sure that the file at path exists and is up to date. If it returns nil, the file can
// be read. If another caller is renewing the file, Ensure returns nil at once, and readers get the
// old file. If there is no old file, Ensure waits for the new one. After MaxWait it returns
// ErrNotReady.
func (s *Files) Ensure(ctx context.Context, path string) error {
	f, err := s.file(path)
	if err != nil {
		return err
	}
	age, exists, err := f.age()
	if err != nil || exists && age < s.maxAge {
		return err
	}
	if err := f.backingOff(); err != nil {
		return f.serveOld(ctx, age, exists, err, false)
	}
	wait := s.settings.maxWait
	if exists {
		wait = 0
	}
	wrote := false
	err = s.locker.Do(ctx, lockName(s.locker, f.lock), func(ctx context.Context) error {
		wrote = true
		return f.renew(ctx)
	}, lockOptions(s.locker, s.settings.lease, padlock.Wait(wait))...)
	held := !wrote && errors.Is(err, padlock.ErrHeld)
	switch {
	case held && exists:
		return nil
	case held && ctx.Err() == nil && !errors.Is(err, padlock.ErrAlreadyHeld):
		return fmt.Errorf("%w: there is no file %s after %v", ErrNotReady, path, wait)
	}
	return err
}

// Remove removes the file at path. The next Ensure makes the file again, even if the last try
// failed and its ErrorTTL is not over. If the file does not exist, Remove returns nil.
func (s *Files) Remove(path string) error {
	f, err := s.file(path)
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.backingOff.remove(f.lock)
	s.mu.Unlock()
	return remove(f.path)
}

func remove(path string) error {
	if err := os.Remove(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// file is one call of Ensure.
type file struct {
	*Files
	given string // the path that the caller gave
	path  string // the absolute path
	lock  string // the lock's name
}

func (s *Files) file(path string) (*file, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	return &file{s, path, abs, "stampede-file:" + abs}, nil
}

// backingOff returns the error of a write that failed less than ErrorTTL ago.
func (f *file) backingOff() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if last := f.Files.backingOff.getEntry(f.lock); last != nil && time.Now().Before(last.until) {
		return last.err
	}
	return nil
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

// renew runs under the lock. It checks the file again, since another caller may have been faster.
func (f *file) renew(ctx context.Context) error {
	age, exists, err := f.age()
	if err != nil || exists && age < f.maxAge {
		return err
	}
	within, cancel := ctx, context.CancelFunc(func() {})
	if limit := f.settings.timeLimit; limit > 0 {
		within, cancel = context.WithTimeoutCause(ctx, limit, ErrTimeLimit)
	}
	defer cancel()
	err = f.replace(within)
	if err == nil || ctx.Err() != nil {
		return err
	}
	if ttl := f.settings.errorTTL; ttl > 0 {
		now := time.Now()
		f.mu.Lock()
		f.Files.backingOff.putEntry(f.lock, failure{err, now, now.Add(ttl)})
		f.mu.Unlock()
	}
	return f.serveOld(ctx, age, exists, err, true)
}

// serveOld is called with the error of write. It returns nil if StaleIfError still allows the old
// file, and otherwise the error.
func (f *file) serveOld(ctx context.Context, age time.Duration, exists bool, err error, report bool) error {
	if !exists || age-f.maxAge >= f.settings.staleIfError {
		return err
	}
	if report {
		f.settings.report(ctx, f.given, err)
	}
	return nil
}

// replace writes a new file in the directory of the old file. Then it renames the new file, so that
// the new file replaces the old one.
func (f *file) replace(ctx context.Context) error {
	mode, old := f.mode()
	tmp, err := createBeside(f.path, mode)
	if err != nil {
		return err
	}
	replaced := false
	defer func() { // runs even if write panics
		if !replaced {
			tmp.Close()
			os.Remove(tmp.Name())
		}
	}()
	if err := f.write(ctx, f.given, tmp); err != nil {
		return err
	}
	if old {
		if err := tmp.Chmod(mode); err != nil { // the umask may have removed some permissions
			return err
		}
	}
	if err := errors.Join(tmp.Sync(), tmp.Close()); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return context.Cause(ctx) // the lock is lost; a newer file may exist
	}
	if err := os.Rename(tmp.Name(), f.path); err != nil {
		return err
	}
	replaced = true
	return nil
}

// mode returns the permissions of the present file. If there is no file it returns 0666, which the
// umask reduces.
func (f *file) mode() (mode fs.FileMode, exists bool) {
	if info, err := os.Stat(f.path); err == nil {
		return info.Mode().Perm(), true
	}
	return 0o666, false
}

// createBeside makes a new file in the directory of path.
func createBeside(path string, mode fs.FileMode) (*os.File, error) {
	const longest = 200 // bytes; a file system allows 255, and the random text follows
	name := "." + filepath.Base(path) + "."
	if len(name) > longest {
		name = "."
	}
	name = filepath.Join(filepath.Dir(path), name+rand.Text())
	return os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, mode)
}
