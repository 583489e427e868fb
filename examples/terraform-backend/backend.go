package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"time"

	"github.com/padlock-go/padlock"
)

// A backend has no memory of its own. Terraform chooses the ID of a lock, which is its token: so
// any server can check and release a lock, whichever server took it, even before a restart.
//
// Two locks belong to a state. A run of Terraform has "run:NAME". Each request that writes, unlocks
// or breaks has "write:NAME" for a moment, so that nobody takes a run's lock away between the check
// of that lock and the write. In files, that second lock is bound to the process and cannot be lost
// in a pause. With states in a database, let the statement that writes compare fences instead.
type backend struct {
	locker *padlock.Locker
	dir    string
	lease  time.Duration // no run may take longer between two writes: Terraform does not renew
}

// maxState is the size of the greatest state that the backend accepts.
const maxState = 64 << 20

// Errors of requests.
var (
	errRequest = errors.New("this is no request of Terraform")
	stateName  = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,99}$`) // no dot and no capital, so that each name has a file of its own on each disk
)

// lockInfo is what Terraform sends with LOCK and UNLOCK, and expects with 423. Its Info and Path
// are left out, because the label of a lock in a file has at most 256 bytes. Terraform cannot parse
// a time that is empty.
type lockInfo struct {
	ID        string
	Operation string `json:",omitempty"`
	Who       string `json:",omitempty"`
	Version   string `json:",omitempty"`
	Created   string `json:",omitempty"`
}

func (b *backend) routes() http.Handler {
	mux := http.NewServeMux()
	for method, h := range map[string]func(w http.ResponseWriter, r *http.Request, name string) error{
		"GET": b.get, "POST": b.post, "DELETE": b.delete, "LOCK": b.lock, "UNLOCK": b.unlock,
	} {
		mux.HandleFunc(method+" /{name}", func(w http.ResponseWriter, r *http.Request) {
			name := r.PathValue("name")
			if !stateName.MatchString(name) {
				http.Error(w, "a state has a name of lower-case letters, digits, - and _", http.StatusBadRequest)
				return
			}
			if err := h(w, r, name); err != nil {
				refuse(w, err)
			}
		})
	}
	return mux
}

// refuse answers with the status that Terraform expects. It repeats a request after 503.
func refuse(w http.ResponseWriter, err error) {
	var held *padlock.HeldError
	switch {
	case errors.As(err, &held):
		w.WriteHeader(http.StatusLocked)
		if len(held.Holds) > 0 && held.Holds[0].Label != "" {
			io.WriteString(w, held.Holds[0].Label)
		} else {
			io.WriteString(w, "{}")
		}
	case errors.Is(err, padlock.ErrLost), errors.Is(err, padlock.ErrExpired):
		http.Error(w, "the run no longer has the lock of this state", http.StatusConflict)
	case errors.Is(err, padlock.ErrInvalid), errors.Is(err, errRequest):
		http.Error(w, err.Error(), http.StatusBadRequest)
	case errors.Is(err, fs.ErrNotExist):
		http.Error(w, "there is no such state", http.StatusNotFound)
	default:
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
	}
}

// lock takes the lock for a run. A repeat with the same ID finds the lock that the run has.
func (b *backend) lock(_ http.ResponseWriter, r *http.Request, name string) error {
	info, err := readInfo(r)
	if err != nil || info.ID == "" {
		return errors.Join(errRequest, err)
	}
	label, err := json.Marshal(info)
	if len(label) > 256 {
		label, err = json.Marshal(lockInfo{ID: info.ID, Created: info.Created})
	}
	if err != nil {
		return err
	}
	lock, err := b.locker.TryAcquire(r.Context(), "run:"+name, padlock.Token(info.ID), padlock.Label(string(label)),
		padlock.Detached(), padlock.NoRenewal(), padlock.TTL(b.lease))
	if err != nil {
		return err
	}
	_, err = lock.Export(r.Context()) // it belongs to the run now, not to this server
	return err
}

// unlock releases the lock of a run. `terraform force-unlock` sends no ID: the run that has the
// lock loses it, and its next write gets 409.
func (b *backend) unlock(_ http.ResponseWriter, r *http.Request, name string) error {
	info, err := readInfo(r)
	if err != nil {
		return err
	}
	return b.writing(r.Context(), name, func(ctx context.Context) error {
		if info.ID != "" {
			key, err := padlock.KeyFor("run:"+name, info.ID, padlock.ModeExclusive)
			if err == nil {
				err = b.locker.ReleaseKey(ctx, key)
			}
			if !errors.Is(err, padlock.ErrLost) && !errors.Is(err, padlock.ErrExpired) {
				return err
			}
		}
		state, err := b.locker.Inspect(ctx, "run:"+name)
		switch {
		case err != nil:
			return err
		case len(state.Holds) == 0: // a repeat, or the lock has expired
			return nil
		case info.ID != "":
			return padlock.ErrLost
		}
		_, err = b.locker.Break(ctx, "run:"+name, state.Fence)
		return err
	})
}

func (b *backend) get(w http.ResponseWriter, _ *http.Request, name string) error {
	state, err := os.ReadFile(b.path(name))
	if err == nil {
		w.Header().Set("Content-Type", "application/json")
		w.Write(state)
	}
	return err
}

func (b *backend) post(w http.ResponseWriter, r *http.Request, name string) error {
	state, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxState))
	if err != nil {
		return fmt.Errorf("%w: %w", errRequest, err)
	}
	return b.change(r, name, func() error { return replace(b.path(name), state) })
}

func (b *backend) delete(_ http.ResponseWriter, r *http.Request, name string) error {
	return b.change(r, name, func() error { return os.Remove(b.path(name)) })
}

// change changes a state for the run that has its lock. A run with -lock=false sends no ID: it must
// find the lock free.
func (b *backend) change(r *http.Request, name string, f func() error) error {
	return b.writing(r.Context(), name, func(ctx context.Context) error {
		id := r.URL.Query().Get("ID")
		if id == "" {
			return b.locker.TryDo(ctx, "run:"+name, func(context.Context) error { return f() })
		}
		key, err := padlock.KeyFor("run:"+name, id, padlock.ModeExclusive)
		if err == nil {
			_, err = b.locker.ExtendKey(ctx, key, b.lease)
		}
		if err != nil {
			return err
		}
		return f()
	})
}

func (b *backend) writing(ctx context.Context, name string, f func(context.Context) error) error {
	lock, err := b.locker.Acquire(ctx, "write:"+name, padlock.Wait(10*time.Second))
	if err != nil {
		return fmt.Errorf("the server could not write: %v", err) // %v: no run has this lock, so Terraform gets 503 and not 423
	}
	defer lock.Release()
	ctx, cancel := lock.Join(ctx)
	defer cancel()
	return f(ctx)
}

func (b *backend) path(name string) string { return filepath.Join(b.dir, name+".tfstate") }

// replace replaces a file in one step, so that a reader finds the old state or the new one.
func replace(path string, state []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), "new-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // fails after the file got its name
	_, err = f.Write(state)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

// readInfo reads the info of a lock. Without a body it is empty.
func readInfo(r *http.Request) (info lockInfo, err error) {
	err = json.NewDecoder(io.LimitReader(r.Body, 1<<16)).Decode(&info)
	switch {
	case errors.Is(err, io.EOF):
		return lockInfo{}, nil
	case err != nil:
		return lockInfo{}, fmt.Errorf("%w: %w", errRequest, err)
	}
	return info, nil
}
