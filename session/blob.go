package session

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"
)

// A BlobStore keeps one value per key: Redis strings, rows of a table. FromBlobs
// makes a Store of it. Its methods are safe for concurrent use, and each is one
// atomic step. Errors are as with Store.
type BlobStore interface {
	// Get returns the value at key, or ErrNotFound.
	Get(ctx context.Context, key string) (Blob, error)

	// Swap writes data, which lives for ttl from now (0: for ever), if the
	// value at key is still old; a nil old means that there must be none. It
	// reports whether it did, and if not, what is there instead (nil: nothing).
	Swap(ctx context.Context, key string, old *Blob, data []byte, ttl time.Duration) (done bool, now *Blob, err error)

	// Remove removes the value if it is still old, and whatever it is if old
	// is nil. It reports whether there was something that it removed.
	Remove(ctx context.Context, key string, old *Blob) (bool, error)

	// Touch makes the value live for ttl from now (0: for ever), if there is
	// one. The value is not written.
	Touch(ctx context.Context, key string, ttl time.Duration) error
}

// A Blob is a value as it was found.
type Blob struct {
	Data []byte
	// Tag is for the store, which may compare it instead of Data: a version.
	Tag string
	TTL time.Duration // how long it will live; 0: for ever
}

// movedSuffix makes the key of a tombstone out of that of a session. PHP's
// ids have no underscore in them.
const movedSuffix = "_MOVED"

// FromBlobs makes a Store of one that keeps single values. Conditions on keys
// are checked here, and the value is swapped if it is still what was checked;
// else all is done again. A tombstone stands beside, at the key + "_MOVED".
func FromBlobs(blobs BlobStore, format Format, traits Traits) Store {
	return &blobSessions{blobs, format, traits}
}

type blobSessions struct {
	blobs  BlobStore
	format Format
	traits Traits
}

func (b *blobSessions) Traits() Traits { return b.traits }

// version of a value is that of its bytes: the same bytes are the same
// session.
func version(data []byte) string {
	sum := sha256.Sum256(data)
	return base64.RawStdEncoding.EncodeToString(sum[:18])
}

func (b *blobSessions) Load(ctx context.Context, key string) (Record, error) {
	blob, err := b.blobs.Get(ctx, key)
	if errors.Is(err, ErrNotFound) {
		return b.loadMoved(ctx, key)
	}
	if err != nil {
		return Record{}, err
	}
	return b.record(blob, Moved{})
}

func (b *blobSessions) record(blob Blob, moved Moved) (Record, error) {
	doc, err := b.format.Parse(blob.Data)
	if err != nil {
		return Record{}, err
	}
	return Record{doc.Fields(), version(blob.Data), blob.TTL, doc.Deadline(), moved}, nil
}

func (b *blobSessions) loadMoved(ctx context.Context, key string) (Record, error) {
	blob, err := b.blobs.Get(ctx, key+movedSuffix)
	if err != nil {
		return Record{}, err
	}
	moved, data, err := parseMoved(blob.Data)
	if err != nil {
		return Record{}, err
	}
	return b.record(Blob{Data: data, TTL: blob.TTL}, moved)
}

// maxSwaps bounds how often a commit is tried again. One of those that run into
// each other always succeeds, so this many others were faster.
const maxSwaps = 1000

func (b *blobSessions) Commit(ctx context.Context, key string, c Change) (Result, error) {
	if c.Create {
		return b.create(ctx, key, c)
	}
	blob, err := b.blobs.Get(ctx, key)
	for try := 0; err == nil && try < maxSwaps; try++ {
		data, res, err := b.changed(blob, c)
		if err != nil {
			return Result{}, err
		}
		if c.Move.To != "" {
			done, err := b.move(ctx, key, blob, data, c)
			if done || err != nil {
				return res, err
			}
			blob, err = b.blobs.Get(ctx, key)
			if err != nil {
				return Result{}, b.missing(ctx, key, err)
			}
			continue
		}
		done, now, err := b.blobs.Swap(ctx, key, &blob, data, c.TTL)
		switch {
		case done || err != nil:
			return res, err
		case now == nil:
			return Result{}, b.missing(ctx, key, ErrNotFound)
		}
		blob = *now
		if err := pause(ctx, try); err != nil {
			return Result{}, err
		}
	}
	if err == nil {
		return Result{}, &ConflictError{}
	}
	return Result{}, b.missing(ctx, key, err)
}

// pause lets those go first who ran into each other more often.
func pause(ctx context.Context, try int) error {
	if try < 2 {
		return nil
	}
	t := time.NewTimer(rand.N(min(time.Duration(try)*200*time.Microsecond, 5*time.Millisecond)))
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return both(ErrUnavailable, ctx.Err()) // nothing was written
	}
}

// changed checks the conditions on one state of the session and applies the
// ops to it.
func (b *blobSessions) changed(blob Blob, c Change) ([]byte, Result, error) {
	if c.Version != "" && c.Version != version(blob.Data) {
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
	return data, Result{version(data), values}, nil
}

func (b *blobSessions) create(ctx context.Context, key string, c Change) (Result, error) {
	data, res, err := b.edit(b.format.New(c.Deadline), c)
	if err != nil {
		return Result{}, err
	}
	switch _, err := b.blobs.Get(ctx, key+movedSuffix); {
	case err == nil:
		return Result{}, ErrExists
	case !errors.Is(err, ErrNotFound):
		return Result{}, err
	}
	done, _, err := b.blobs.Swap(ctx, key, nil, data, c.TTL)
	if err == nil && !done {
		err = ErrExists
	}
	return res, err
}

// missing tells a session that moved from one that is no more.
func (b *blobSessions) missing(ctx context.Context, key string, err error) error {
	if !errors.Is(err, ErrNotFound) {
		return err
	}
	r, err := b.loadMoved(ctx, key)
	if err != nil {
		return err
	}
	return &MovedError{r.Moved}
}

// move writes the tombstone and then removes the session, if nobody changed it
// between. Until then nobody sees the tombstone.
func (b *blobSessions) move(ctx context.Context, key string, old Blob, data []byte, c Change) (bool, error) {
	beside := key + movedSuffix
	for {
		was, err := b.blobs.Get(ctx, beside)
		before := &was
		if errors.Is(err, ErrNotFound) {
			before, err = nil, nil
		}
		if err != nil {
			return false, err
		}
		done, _, err := b.blobs.Swap(ctx, beside, before, appendMoved(c.Move, data), c.TTL)
		if err != nil {
			return false, err
		}
		if done {
			return b.blobs.Remove(ctx, key, &old)
		}
	}
}

func (b *blobSessions) Touch(ctx context.Context, key string, ttl time.Duration) error {
	return b.blobs.Touch(ctx, key, ttl)
}

func (b *blobSessions) Delete(ctx context.Context, key string) (Moved, error) {
	removed, err := b.blobs.Remove(ctx, key, nil)
	if err != nil {
		return Moved{}, err
	}
	r, err := b.loadMoved(ctx, key)
	if errors.Is(err, ErrNotFound) {
		return Moved{}, nil
	}
	if err != nil {
		return Moved{}, err
	}
	if _, err := b.blobs.Remove(ctx, key+movedSuffix, nil); err != nil {
		return Moved{}, err
	}
	if removed { // what was beside it was not in force
		return Moved{}, nil
	}
	return r.Moved, nil
}

const movedMagic = "PLM\x01"

func appendMoved(m Moved, data []byte) []byte {
	b := append([]byte(movedMagic), 0)
	if m.Frozen {
		b[len(b)-1] = 1
	}
	b = binary.AppendUvarint(b, uint64(m.At.UnixMilli()))
	b = binary.AppendUvarint(b, uint64(len(m.To)))
	return append(append(b, m.To...), data...)
}

func parseMoved(blob []byte) (Moved, []byte, error) {
	if len(blob) <= len(movedMagic) || string(blob[:len(movedMagic)]) != movedMagic {
		return Moved{}, nil, fmt.Errorf("%w: a tombstone begins otherwise", errPacked)
	}
	p := unpacker{rest: blob[len(movedMagic)+1:]}
	m := Moved{Frozen: blob[len(movedMagic)] == 1}
	m.At = time.UnixMilli(int64(p.number()))
	m.To = string(p.bytes())
	if p.bad || m.To == "" {
		return Moved{}, nil, errPacked
	}
	return m, p.rest, nil
}
