package command

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/driver/fast"
	"github.com/padlock-go/padlock/newest"
)

// acquireOnce takes the lock on NAME, or one of its slots, or the locks on NAME and on all names of
// --also.
func (f *front) acquireOnce(ctx context.Context, opts []padlock.Option) (err error) {
	if f.set.newest {
		f.lock, err = newest.Acquire(ctx, f.locker, f.name, opts...)
		return err
	}
	if len(f.set.also) == 0 && !f.set.path && f.set.weight == 0 {
		f.lock, err = f.locker.Acquire(ctx, f.name, opts...)
		return err
	}
	if f.set.path {
		opts = append(opts, padlock.Paths())
	}
	if f.all, err = f.locker.AcquireAll(ctx, append([]string{f.name}, f.set.also...), opts...); err == nil {
		f.lock = f.all.Lock(f.name)
	}
	return err
}

// locks returns all locks of this run.
func (f *front) locks() []*padlock.Lock {
	if f.all == nil {
		return []*padlock.Lock{f.lock}
	}
	return locksOf(f.all)
}

// remaining returns how long this run keeps all its locks if none of them is renewed.
func (f *front) remaining() time.Duration {
	if f.all != nil {
		return f.all.Remaining()
	}
	return f.lock.Remaining()
}

// lasting returns a context that ends as soon as one of the locks ends.
func (f *front) lasting() context.Context {
	if f.all != nil {
		return f.all.Context()
	}
	return f.lock.Context()
}

// expired reports whether one of the locks has ended.
func (f *front) expired() bool {
	for _, lock := range f.locks() {
		if lock.Remaining() == 0 {
			return true
		}
	}
	return false
}

// nextToEnd returns the name of a lock that has ended. If none has ended, it returns the name of
// the lock that will end first.
func (f *front) nextToEnd() string {
	next := f.lock
	for _, lock := range f.locks() {
		if lock.Remaining() < next.Remaining() {
			next = lock
		}
	}
	return next.Name()
}

func (f *front) releaseLocks() error {
	if f.all != nil {
		return f.all.Release()
	}
	return f.lock.Release()
}

func (f *front) checkLocks(ctx context.Context) error {
	if f.all != nil {
		return f.all.Check(ctx)
	}
	return f.lock.Check(ctx)
}

// files returns the files that carry the locks. There are none if the store does not keep its locks
// in files.
func (f *front) files() (files []*os.File, err error) {
	for _, lock := range f.locks() {
		file, err := lock.File()
		switch {
		case errors.Is(err, errors.ErrUnsupported):
			return nil, nil
		case err != nil:
			for _, file := range files {
				file.Close()
			}
			return nil, f.explain(lock.Name(), err)
		}
		files = append(files, file)
	}
	return files, nil
}

// otherFences returns the fences of the names of --also, as NAME2=FENCE&NAME3=FENCE in the encoding
// of a URL's query.
func (f *front) otherFences() string {
	fences := url.Values{}
	for _, lock := range f.locks() {
		if lock.Name() != f.name && lock.Fence() != 0 && !f.isFolder(lock) {
			fences.Set(lock.Name(), strconv.FormatUint(lock.Fence(), 10))
		}
	}
	return fences.Encode()
}

// isFolder reports whether the lock is that on a folder above a path.
func (f *front) isFolder(lock *padlock.Lock) bool { return f.set.path && lock.Shared() }

// lockOfError returns the name of the lock that err is about; without one, it is name.
func lockOfError(err error, name string) string {
	var e *padlock.Error
	if errors.As(err, &e) && e.Name != "" {
		return e.Name
	}
	return name
}

// title returns the text that describes a lock in messages.
func (f *front) title(name string) string {
	if f.set.weight > 0 {
		return fmt.Sprintf("%d slots of %s", f.set.weight, show(name))
	}
	if f.lock != nil && f.lock.Slot() >= 0 {
		return title(fast.SlotName(name, f.lock.Slot()))
	}
	return show(name)
}

// titles describes all locks in messages.
func (f *front) titles() string {
	var titles []string
	for _, lock := range f.locks() {
		if !f.isFolder(lock) {
			titles = append(titles, f.title(lock.Name()))
		}
	}
	return strings.Join(slices.Compact(titles), ", ")
}

// explain explains why the lock of this run was not taken. If the run uses slots, the message names
// the holders of the slots.
func (f *front) explain(name string, err error) *failure {
	var held *padlock.HeldError
	if f.set.slots > 0 && errors.As(err, &held) && !errors.Is(err, padlock.ErrUncertain) {
		return f.heldFailure(name, held)
	}
	return f.app.explain(name, err)
}

// heldFailure returns the failure that names the holders of the lock or, with --slots, of its slots.
func (f *front) heldFailure(name string, held *padlock.HeldError) *failure {
	failed := heldFailure(name, held)
	if f.set.slots > 0 {
		failed.note.Message = f.set.heldText(name, held, time.Now())
	}
	return failed
}

// heldText returns a text that names the holders of the lock or, with --slots, of its slots.
func (set *runFlags) heldText(name string, held *padlock.HeldError, now time.Time) string {
	if set.slots > 0 {
		return slotsText(name, int(set.slots), int(set.weight), held, now)
	}
	return heldText(name, held, now)
}
