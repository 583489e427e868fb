package sessionstore

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"time"
)

// FromBlobs makes a Store of a BlobStore. A commit reads the value, checks the conditions on keys,
// and swaps the value if it has not changed since; otherwise the commit begins again.
//
// When a session gets a new id, a tombstone takes the place of the session at the old key. A
// tombstone is a value that begins with TombstonePrefix, so the format must not write sessions that
// begin with it. If Traits.CommitsNeedLock is true, other programs read the keys of sessions and
// would not understand a tombstone. In this case, the tombstone is kept at another key: the old key
// with "_MOVED" after it. As long as the tombstone is there, it counts more than what another
// program writes at the old key.
//
// The store is an Index, too: see BlobIndex. The keys of its values begin with "padlock:user:".
func FromBlobs(blobs BlobStore, format Format, traits Traits) IndexedStore {
	return &blobSessions{BlobIndex(blobs, "padlock:user:"), blobs, format, traits}
}

func (b *blobSessions) Traits() Traits { return b.traits }

// version returns the version of a session: a hash of the bytes that are stored for it. So two
// sessions with the same bytes have the same version.
func version(data []byte) string {
	sum := sha256.Sum256(data)
	return base64.RawStdEncoding.EncodeToString(sum[:18])
}

func (b *blobSessions) Load(ctx context.Context, key string) (Record, error) {
	blob, moved, err := b.find(ctx, key)
	if err != nil {
		return Record{}, err
	}
	doc, err := b.format.Parse(blob.Data)
	if err != nil {
		return Record{}, err
	}
	return Record{Fields: doc.Fields(), Version: version(blob.Data), TTL: blob.TTL, Deadline: doc.Deadline(), Moved: moved, Try: tryOn(doc)}, nil
}

// tryOn returns a function for Record.Try. It changes doc, but not the values that doc.Fields has
// returned.
func tryOn(doc Document) func(Op) error {
	return func(op Op) error {
		if op.Kind == OpDelete {
			return doc.Delete(op.Key)
		}
		return doc.Set(op.Key, op.Value)
	}
}

// find returns a session, or a tombstone and the data that the session had.
func (b *blobSessions) find(ctx context.Context, key string) (Blob, Moved, error) {
	blob, err := b.blobs.Get(ctx, key)
	left := b.ownTombstoneKeys() && errors.Is(err, ErrNotFound)
	if err == nil {
		left, err = b.hasTombstone(ctx, key)
	}
	switch {
	case left:
		return b.findBeside(ctx, key)
	case err != nil:
		return Blob{}, Moved{}, err
	}
	return b.split(blob)
}

// maxSwaps bounds how often a commit is tried again. A try fails only if another commit succeeded
// meanwhile, so the bound is reached only after that many other commits.
const maxSwaps = 1000

func (b *blobSessions) Commit(ctx context.Context, key string, c Change) (Result, error) {
	if c.Create {
		return b.create(ctx, key, c)
	}
	blob, err := b.blobs.Get(ctx, key)
	if err != nil {
		return Result{}, b.missing(ctx, key, err)
	}
	for try := range maxSwaps {
		if left, err := b.hasTombstone(ctx, key); err != nil {
			return Result{}, err
		} else if left {
			return Result{}, b.missing(ctx, key, ErrNotFound)
		}
		data, res, err := b.applyChange(blob, c)
		if err != nil {
			return Result{}, err
		}
		done, now, err := b.replace(ctx, key, &blob, data, c)
		switch {
		case err != nil:
			return Result{}, err
		case done:
			return res, nil
		case now == nil:
			return Result{}, b.missing(ctx, key, ErrNotFound)
		}
		blob = *now
		if err := pause(ctx, try); err != nil {
			return Result{}, err
		}
	}
	return Result{}, &ConflictError{}
}

// replace stores the new bytes of the session at key, if the value there still equals *current. If
// the change c moves the session, replace stores a tombstone, which contains the new bytes.
func (b *blobSessions) replace(ctx context.Context, key string, current *Blob, data []byte, c Change) (bool, *Blob, error) {
	switch {
	case c.Move.To.Text() == "":
		return b.blobs.Swap(ctx, key, current, data, c.TTL)
	case b.ownTombstoneKeys():
		if c.TTL <= noGrace {
			return b.moveBeside(ctx, key, current, ended(key, c.Move.At), endedTTL)
		}
		return b.moveBeside(ctx, key, current, appendMoved(c.Move, data), c.TTL)
	}
	return b.blobs.Swap(ctx, key, current, appendMoved(c.Move, data), c.TTL)
}

// applyChange checks the conditions of c on the session in blob, and applies the ops of c to it. It
// returns the new bytes of the session.
func (b *blobSessions) applyChange(blob Blob, c Change) ([]byte, Result, error) {
	blob, moved, err := b.split(blob)
	switch {
	case err != nil:
		return nil, Result{}, err
	case moved.To.Text() != "":
		return nil, Result{}, &MovedError{moved}
	case c.Version != "" && c.Version != version(blob.Data):
		return nil, Result{}, &ConflictError{}
	}
	doc, err := b.format.Parse(blob.Data)
	if err != nil {
		return nil, Result{}, err
	}
	return b.edit(doc, c)
}

func (b *blobSessions) edit(doc Document, c Change) ([]byte, Result, error) {
	if err := checkUnchanged(c.Unchanged, doc.Get, b.format.Same); err != nil {
		return nil, Result{}, err
	}
	was := sizeOfFields(doc, c.MaxSize)
	values, err := apply(doc, c.Ops, b.format.Add)
	if err == nil {
		err = checkSize(was, sizeOfFields(doc, c.MaxSize), c.MaxSize)
	}
	if err != nil {
		return nil, Result{}, err
	}
	data, err := doc.Encode()
	if err != nil {
		return nil, Result{}, err
	}
	if !b.ownTombstoneKeys() && isTombstone(data) {
		return nil, Result{}, fmt.Errorf("%w: its format begins as a tombstone does", ErrRefused)
	}
	return data, Result{version(data), values}, nil
}

func (b *blobSessions) create(ctx context.Context, key string, c Change) (Result, error) {
	data, res, err := b.edit(b.format.New(c.Deadline), c)
	if err != nil {
		if now, unread := getOrNil(ctx, b.blobs, key); unread == nil && now != nil {
			err = ErrExists // this error comes first
		}
		return Result{}, err
	}
	if b.ownTombstoneKeys() {
		switch _, _, err := b.findBeside(ctx, key); {
		case err == nil:
			return Result{}, ErrExists
		case !errors.Is(err, ErrNotFound):
			return Result{}, err
		}
		if err := b.forgetEnd(ctx, key); err != nil {
			return Result{}, err
		}
	}
	done, _, err := b.blobs.Swap(ctx, key, nil, data, c.TTL)
	switch {
	case err != nil:
		return Result{}, err
	case !done:
		return Result{}, ErrExists
	}
	return res, nil
}

// missing returns a *MovedError if the session has moved, and ErrNotFound if it does not exist. It
// returns any other err as it is.
func (b *blobSessions) missing(ctx context.Context, key string, err error) error {
	if !b.ownTombstoneKeys() || !errors.Is(err, ErrNotFound) {
		return err
	}
	_, moved, err := b.findBeside(ctx, key)
	if err != nil {
		return err
	}
	return &MovedError{moved}
}

func (b *blobSessions) Touch(ctx context.Context, key string, ttl time.Duration) error {
	return b.blobs.Touch(ctx, key, ttl)
}

// Delete does not parse the session, so it can also delete a damaged session. It does not delete a
// value that is certainly not a session: one of another type, or one of which the format of this
// package knows that padlock did not write it.
func (b *blobSessions) Delete(ctx context.Context, key string) (Moved, error) {
	if b.ownTombstoneKeys() {
		return b.deleteBeside(ctx, key)
	}
	for try := 0; ; try++ {
		blob, err := b.blobs.Get(ctx, key)
		switch {
		case errors.Is(err, ErrNotFound):
			return Moved{}, nil
		case err != nil:
			return Moved{}, err
		}
		if _, own := b.format.(packed); own && !isPadlocks(blob.Data) {
			return Moved{}, fmt.Errorf("%w: padlock did not write it, and leaves it alone", ErrRefused)
		}
		// Remove deletes nothing if the value has changed since Get. The session may have moved to
		// a new id meanwhile. Then the next try finds the tombstone and returns the new key.
		if done, err := b.blobs.Remove(ctx, key, &blob); err != nil {
			return Moved{}, err
		} else if done {
			_, moved, err := b.split(blob)
			return moved, err
		}
		if err := pause(ctx, try); err != nil {
			return Moved{}, err
		}
	}
}

// sizeOfFields returns how many bytes all keys and values have together. Change.MaxSize limits this
// number. If limit is 0, sizeOfFields returns 0 without counting.
func sizeOfFields(doc Document, limit int) int {
	size := 0
	if limit > 0 {
		for _, f := range doc.Fields() {
			size += len(f.Key) + len(f.Value)
		}
	}
	return size
}
