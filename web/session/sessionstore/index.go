package sessionstore

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"time"
)

// An Index finds the sessions of a user without a scan. A program can list and end all sessions of
// a user if its Store is an Index too. Memory is one, and so are the stores that FromBlobs returns.
// An Index is safe for concurrent use.
//
// The Manager notes a session before it writes the session, and checks each session that it finds.
// So an Index may return keys of sessions that have ended, but it must not lose a key.
type Index interface {
	// Note adds key to the keys of user. The Index keeps it for at least ttl from now; 0 means for
	// ever. The name of a user is a hash, so it has 43 letters of base64.
	Note(ctx context.Context, user, key string, ttl time.Duration) error

	// Noted returns the keys of user.
	Noted(ctx context.Context, user string) ([]string, error)

	// Forget removes keys of sessions that have ended. It keeps those that were noted in the last
	// minute, because their sessions may be about to be written.
	Forget(ctx context.Context, user string, keys []string) error
}

// An IndexedStore is a Store with an Index.
type IndexedStore interface {
	Store
	Index
}

const (
	// keepNew is how long Forget keeps a key, and sameNote is how long a note is not repeated.
	keepNew, sameNote = time.Minute, 30 * time.Second
	// keepLonger is how much longer than its ttl a key is kept, since the clocks of the processes
	// that share an Index differ.
	keepLonger = time.Hour
)

// noted is one key of a user.
type noted struct {
	key     string
	at      time.Time
	expires time.Time // zero: never
}

// notedKeys are the keys of one user.
type notedKeys []noted

// with returns the keys with one more, and without those that have expired. If the key has just been
// noted for as long, with returns n.
func (n notedKeys) with(key string, ttl time.Duration, now time.Time) notedKeys {
	if slices.ContainsFunc(n, func(k noted) bool {
		return k.key == key && now.Sub(k.at) < sameNote && (k.expires.IsZero() || ttl > 0 && k.expires.Sub(now) > ttl)
	}) {
		return n
	}
	one := noted{key: key, at: now}
	if ttl > 0 {
		one.expires = now.Add(min(ttl, 1<<62)).Add(keepLonger)
	}
	left := slices.DeleteFunc(slices.Clone(n), func(k noted) bool { return k.key == key || k.over(now) })
	return append(left, one)
}

func (k *noted) over(now time.Time) bool { return !k.expires.IsZero() && !now.Before(k.expires) }

// without returns the keys without those that Forget may remove.
func (n notedKeys) without(keys []string, now time.Time) notedKeys {
	return slices.DeleteFunc(slices.Clone(n), func(k noted) bool {
		return slices.Contains(keys, k.key) && now.Sub(k.at) > keepNew+sameNote || k.over(now)
	})
}

// names returns the keys.
func (n notedKeys) names() []string {
	var keys []string
	for i := range n {
		keys = append(keys, n[i].key)
	}
	return keys
}

// ttl returns how long the keys have to be kept; 0 means for ever.
func (n notedKeys) ttl(now time.Time) time.Duration {
	var longest time.Duration
	for i := range n {
		if n[i].expires.IsZero() {
			return 0
		}
		longest = max(longest, n[i].expires.Sub(now))
	}
	return max(longest, time.Millisecond)
}

// BlobIndex returns an Index that keeps one value for each user, at prefix and the user's name. Its
// times are those of the clock of the calling process.
func BlobIndex(blobs BlobStore, prefix string) Index { return &blobIndex{blobs, prefix} }

type blobIndex struct {
	blobs  BlobStore
	prefix string
}

// indexMagic is the beginning of every value of a blobIndex. Its last byte is the number of the
// format. It is followed by the keys of the user: for each, when it was noted and when it expires,
// in ms since 1970, and the key with its length before it.
const indexMagic = "PLU\x01"

func (n notedKeys) encode() []byte {
	b := []byte(indexMagic)
	for i := range n {
		var expires int64
		if !n[i].expires.IsZero() {
			expires = n[i].expires.UnixMilli()
		}
		b = binary.AppendUvarint(b, uint64(n[i].at.UnixMilli()))
		b = binary.AppendUvarint(b, uint64(expires))
		b = binary.AppendUvarint(b, uint64(len(n[i].key)))
		b = append(b, n[i].key...)
	}
	return b
}

func parseNoted(data []byte) (notedKeys, error) {
	if len(data) < len(indexMagic) || string(data[:len(indexMagic)]) != indexMagic {
		return nil, fmt.Errorf("%w: the list of a user's sessions begins otherwise, or a newer padlock wrote it", ErrRefused)
	}
	var keys notedKeys
	p := unpacker{rest: data[len(indexMagic):]}
	for len(p.rest) > 0 && !p.bad {
		k := noted{at: time.UnixMilli(int64(p.number()))}
		if ms := p.number(); ms != 0 {
			k.expires = time.UnixMilli(int64(ms))
		}
		k.key = string(p.bytes())
		keys = append(keys, k)
	}
	if p.bad {
		return nil, errPacked
	}
	return keys, nil
}

// Note implements Index.
func (x *blobIndex) Note(ctx context.Context, user, key string, ttl time.Duration) error {
	return x.change(ctx, user, func(n notedKeys) notedKeys { return n.with(key, ttl, time.Now()) })
}

// Noted implements Index.
func (x *blobIndex) Noted(ctx context.Context, user string) ([]string, error) {
	blob, err := getOrNil(ctx, x.blobs, x.prefix+user)
	if blob == nil || err != nil {
		return nil, err
	}
	keys, err := parseNoted(blob.Data)
	return keys.names(), err
}

// Forget implements Index.
func (x *blobIndex) Forget(ctx context.Context, user string, keys []string) error {
	return x.change(ctx, user, func(n notedKeys) notedKeys { return n.without(keys, time.Now()) })
}

// change replaces the keys of user by the result of f.
func (x *blobIndex) change(ctx context.Context, user string, f func(notedKeys) notedKeys) error {
	now, err := getOrNil(ctx, x.blobs, x.prefix+user)
	for try := 0; err == nil && try < maxSwaps; try++ {
		var keys notedKeys
		if now != nil {
			if keys, err = parseNoted(now.Data); err != nil {
				return err
			}
		}
		was := keys
		if keys = f(keys); slices.Equal(keys, was) {
			return nil
		}
		var done bool
		if len(keys) == 0 {
			done, err = x.blobs.Remove(ctx, x.prefix+user, now)
			if err == nil && !done {
				now, err = getOrNil(ctx, x.blobs, x.prefix+user)
			}
		} else {
			done, now, err = x.blobs.Swap(ctx, x.prefix+user, now, keys.encode(), keys.ttl(time.Now()))
		}
		if done || err != nil {
			return err
		}
		err = pause(ctx, try)
	}
	if err == nil {
		err = unavailable(&ConflictError{})
	}
	return err
}
