package sessionstore

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"time"
)

// TombstonePrefix is the beginning of every tombstone. A tombstone tells that a session has got a
// new id. Unless Traits.CommitsNeedLock is true, FromBlobs stores the tombstone at the session's
// old key. BlobStore.Touch must not change a value with this prefix.
const TombstonePrefix = "PLM\x01"

func isTombstone(data []byte) bool { return bytes.HasPrefix(data, []byte(TombstonePrefix)) }

// split parses a tombstone that is at the session's own key. It returns any other value unchanged.
func (b *blobSessions) split(blob Blob) (Blob, Moved, error) {
	if b.ownTombstoneKeys() || !isTombstone(blob.Data) {
		return blob, Moved{}, nil
	}
	moved, data, err := parseMoved(blob.Data)
	blob.Data = data
	return blob, moved, err
}

func appendMoved(m Moved, data []byte) []byte {
	b := append([]byte(TombstonePrefix), 1) // the 1 means that the old id is frozen, as it always is
	b = binary.AppendUvarint(b, uint64(m.At.UnixMilli()))
	b = binary.AppendUvarint(b, uint64(len(m.To.Text())))
	return append(append(b, m.To.Text()...), data...)
}

func parseMoved(blob []byte) (Moved, []byte, error) {
	if len(blob) <= len(TombstonePrefix) || !isTombstone(blob) {
		return Moved{}, nil, fmt.Errorf("%w: a tombstone begins otherwise", errPacked)
	}
	p := unpacker{rest: blob[len(TombstonePrefix)+1:]}
	var m Moved
	m.At = time.UnixMilli(int64(p.number()))
	m.To = KeyOf(string(p.bytes()))
	if p.bad || m.To.Text() == "" {
		return Moved{}, nil, errPacked
	}
	return m, p.rest, nil
}

// If the tombstone has a key of its own, a move changes two keys: the session's key and the
// tombstone's key. A store cannot change two keys in one step, so a move takes three steps. Step 1
// writes a claim at the tombstone's key. A claim says that a move may be under way. It does not
// name the new id.
//
//	after     key of the session  key of the tombstone  a reader
//	no step   the session         nothing               gets the session
//	step 1    the session         the claim             gets the session
//	step 2    nothing             the claim             waits for step 3, at most for claimWait
//	step 3    nothing             the tombstone         learns where the session moved
//
// Step 2 removes the session only if it has not changed since it was read. If several moves run at
// the same time, only one of them removes the session, and only that move takes step 3. If a move
// finds the claim of another move, it uses that claim. Delete removes a claim, and step 3 replaces
// a claim by the tombstone. If Delete comes between step 2 and step 3, step 3 does not find its
// claim, and the move fails.
//
// A process may die during a move. After step 1, the session still works and can change, and the
// claim does no harm. After step 2, there is no session at the old id, and no client knows the new
// id.

// A program such as PHP knows nothing of tombstones. It may have waited for the session's lock while
// the session moved or ended, and then it makes the old id anew. So a request that finds data at the
// session's key also looks for a tombstone. It looks for the tombstone last: the tombstone was there
// before the lock was free, and so before such data.
//
// For this reason, a session that ends leaves a tombstone, too. It is a tombstone whose new key is
// the old key with "_ENDED" after it, where there never is a session. Versions of padlock that know
// no such tombstones find that the session has moved to an id that has ended, which is the same.

// movedSuffix makes the key of a tombstone from the key of its session. PHP's ids have no
// underscore in them.
const movedSuffix = "_MOVED"

const (
	endedSuffix = "_ENDED"
	// endedTTL is how long a session that has ended is protected from requests that began before.
	endedTTL = time.Minute
	// noGrace is the longest lifetime of a tombstone that lets nobody read the session.
	noGrace = time.Millisecond
)

// ended returns the tombstone of a session that has ended.
func ended(key string, at time.Time) []byte {
	return appendMoved(Moved{To: KeyOf(key + endedSuffix), At: at}, nil)
}

// hasTombstone reports whether there is a tombstone next to the session at key.
func (b *blobSessions) hasTombstone(ctx context.Context, key string) (bool, error) {
	if !b.ownTombstoneKeys() {
		return false, nil
	}
	blob, err := getOrNil(ctx, b.blobs, key+movedSuffix)
	return blob != nil && isTombstone(blob.Data), err
}

// forgetEnd removes the tombstone of an ended session at key, so that a new session can be made.
func (b *blobSessions) forgetEnd(ctx context.Context, key string) error {
	now, err := getOrNil(ctx, b.blobs, key+movedSuffix)
	if now != nil && isTombstone(now.Data) {
		_, err = b.blobs.Remove(ctx, key+movedSuffix, now)
	}
	return err
}

const (
	claimPrefix = "PLC\x01"
	// claimTTL is longer than any move takes.
	claimTTL = time.Minute
	// claimWait is how long a reader waits for step 3 of a move. It is many times the duration of
	// one request to a store, and too short to annoy a visitor.
	claimWait = time.Second
	// confirmTime is how long step 3 of a move may take once the client has left.
	confirmTime = 5 * time.Second
)

func isClaim(blob *Blob) bool { return blob != nil && bytes.HasPrefix(blob.Data, []byte(claimPrefix)) }

// findBeside returns the tombstone of the session at key, and the data that the session had. The
// tombstone is at a key of its own (see movedSuffix). If a move is under way, there may be only a
// claim at that key. Then findBeside waits for the tombstone, but at most for claimWait. If there
// is no tombstone, or the session has ended, the error is ErrNotFound.
func (b *blobSessions) findBeside(ctx context.Context, key string) (Blob, Moved, error) {
	end := time.Now().Add(claimWait)
	for wait := time.Millisecond; ; wait = min(2*wait, claimWait/20) {
		blob, err := b.blobs.Get(ctx, key+movedSuffix)
		if err != nil {
			return Blob{}, Moved{}, err
		}
		if !isClaim(&blob) {
			moved, data, err := parseMoved(blob.Data)
			if moved.To.Text() == key+endedSuffix {
				return Blob{}, Moved{}, ErrNotFound
			}
			blob.Data = data
			return blob, moved, err
		}
		if time.Now().After(end) {
			return Blob{}, Moved{}, ErrNotFound
		}
		if err := sleep(ctx, wait); err != nil {
			return Blob{}, Moved{}, err
		}
	}
}

// moveBeside removes the session at key if it still equals *current. Then it stores the tombstone
// at a key of its own (see movedSuffix). The results are like those of BlobStore.Swap: whether the
// session has moved, and if not, the value that is at key now.
func (b *blobSessions) moveBeside(ctx context.Context, key string, current *Blob, tombstone []byte, ttl time.Duration) (bool, *Blob, error) {
	claim, err := b.writeClaim(ctx, key)
	if err != nil && !errors.Is(err, ErrUnavailable) {
		err = unavailable(err) // the session did not change, even if the claim was written
	}
	if claim == nil || err != nil {
		return false, nil, err
	}
	removed, err := b.leave(ctx, key, current)
	if err != nil {
		return false, nil, err
	}
	if !removed {
		now, err := getOrNil(ctx, b.blobs, key)
		return false, now, err
	}
	// The session has left its key, so the move is completed even if the client no longer waits.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), confirmTime)
	defer cancel()
	return true, nil, b.confirm(ctx, key+movedSuffix, claim, tombstone, ttl)
}

// leave does step 2 of a move: it removes the session if it still equals *current. While the session
// is seen at its key, requests may save writes there, so an uncertain step is taken again.
func (b *blobSessions) leave(ctx context.Context, key string, current *Blob) (bool, error) {
	removed, err := b.blobs.Remove(ctx, key, current)
	if err == nil || errors.Is(err, ErrUnavailable) {
		return removed, err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), confirmTime)
	defer cancel()
	repeat(ctx, func() bool {
		now, unread := getOrNil(ctx, b.blobs, key)
		switch {
		case unread != nil:
		case now == nil: // removed by this move: only the holder of the session's lock moves or deletes it
			removed, err = true, nil
		case !bytes.Equal(now.Data, current.Data):
			err = nil
		default:
			_, _ = b.blobs.Remove(ctx, key, current) // the next look shows the outcome
		}
		return err == nil
	})
	return removed, err
}

// repeat calls f until f returns true or ctx ends, with pauses that grow.
func repeat(ctx context.Context, f func() bool) {
	for wait := time.Millisecond; !f() && sleep(ctx, wait) == nil; wait = min(2*wait, claimWait/20) {
	}
}

// writeClaim does step 1 of a move: it writes a claim at the key of the tombstone (see
// movedSuffix), and returns the claim. If another move has already written a claim, writeClaim
// makes that claim last longer and returns it. If another move has already removed the session,
// writeClaim returns nil.
func (b *blobSessions) writeClaim(ctx context.Context, key string) ([]byte, error) {
	tombstoneKey := key + movedSuffix
	now, err := getOrNil(ctx, b.blobs, tombstoneKey)
	for {
		if err != nil {
			return nil, err
		}
		data := append([]byte(claimPrefix), rand.Text()...)
		switch {
		case isClaim(now):
			data = now.Data
		case now != nil:
			return nil, nil // another move was faster
		}
		var done bool
		if done, now, err = b.blobs.Swap(ctx, tombstoneKey, now, data, claimTTL); done && err == nil {
			return data, nil
		}
	}
}

var errUnconfirmed = errors.New("session: the tombstone of the old id is not confirmed")

// confirm does step 3 of a move: it replaces the claim by the tombstone (see movedSuffix), and tries
// until it is known whether the tombstone is there. If the session was deleted meanwhile, the error
// is ErrNotFound. After errUnconfirmed, the tombstone may or may not have been written.
func (b *blobSessions) confirm(ctx context.Context, tombstoneKey string, claim, tombstone []byte, ttl time.Duration) error {
	isUnsure, err := false, errUnconfirmed
	repeat(ctx, func() bool {
		now, unread := getOrNil(ctx, b.blobs, tombstoneKey)
		switch {
		case unread != nil:
			return false
		case now == nil && isUnsure: // the tombstone may have ended
		case now != nil && bytes.Equal(now.Data, tombstone):
			err = nil
		case now == nil || !bytes.Equal(now.Data, claim):
			err = ErrNotFound
		default:
			done, _, failed := b.blobs.Swap(ctx, tombstoneKey, now, tombstone, ttl)
			if !done || failed != nil {
				isUnsure = isUnsure || failed != nil
				return false
			}
			err = nil
		}
		return true
	})
	return err
}

// deleteBeside deletes a session whose tombstone has a key of its own. First it removes the
// session. Then it removes the claim or the tombstone. At last it writes the tombstone of a session
// that has ended, unless there was nothing to delete. If that fails, as in a full store, the session
// has ended all the same.
//
// Another request may be moving the session at the same time. Step 3 of that move fails, because
// deleteBeside has removed the claim (see movedSuffix).
func (b *blobSessions) deleteBeside(ctx context.Context, key string) (Moved, error) {
	removed, err := b.blobs.Remove(ctx, key, nil)
	if err != nil {
		return Moved{}, err
	}
	moved, found, err := b.removeTombstone(ctx, key)
	if err == nil && (removed || found) {
		_, _, _ = b.blobs.Swap(ctx, key+movedSuffix, nil, ended(key, time.Now()), endedTTL)
	}
	if moved.To.Text() == key+endedSuffix {
		moved = Moved{}
	}
	return moved, err
}

// removeTombstone removes the claim or the tombstone of the session at key. It returns whether there
// was one, and where the session had moved. A claim means that the move was not complete.
func (b *blobSessions) removeTombstone(ctx context.Context, key string) (moved Moved, found bool, err error) {
	for {
		now, err := getOrNil(ctx, b.blobs, key+movedSuffix)
		if now == nil || err != nil || !isClaim(now) && !isTombstone(now.Data) { // another program wrote it
			return Moved{}, false, err
		}
		done, err := b.blobs.Remove(ctx, key+movedSuffix, now)
		switch {
		case err != nil:
			return Moved{}, false, err
		case done && !isClaim(now):
			moved, _, err = parseMoved(now.Data)
			fallthrough
		case done:
			return moved, true, err
		}
	}
}
