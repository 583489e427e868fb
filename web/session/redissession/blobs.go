package redissession

import (
	"context"
	"errors"
	"time"

	"github.com/padlock-go/padlock/web/session/sessionstore"
	"github.com/redis/rueidis"
)

var (
	blobGet    = script("blob_get")
	blobSwap   = script("blob_swap")
	blobRemove = script("blob_remove")
	blobTouch  = script("blob_touch")
)

// BlobSessions keeps each session as one string. For sessions with many keys, this takes less
// memory than the hashes of Sessions. A commit reads and writes the whole session, and starts again
// if another commit has changed the session meanwhile.
func (r *Redis) BlobSessions() sessionstore.IndexedStore {
	return sessionstore.FromBlobs(&blobs{r, r.prefix + "blob:"}, sessionstore.Packed(), sessionstore.Traits{})
}

// Blobs keeps strings under exactly the keys that the caller gives, without Prefix. It is for
// phpsession.New, which uses PHP's keys, or for a sessionstore.Format of your own. A commit
// replaces a string only if no byte of the string has changed since the session was read.
func (r *Redis) Blobs() sessionstore.BlobStore { return &blobs{r, ""} }

type blobs struct {
	*Redis
	before string // prefix of each key
}

func (b *blobs) keys(key string) []string { return []string{b.before + key} }

// Get implements sessionstore.BlobStore.
func (b *blobs) Get(ctx context.Context, key string) (sessionstore.Blob, error) {
	pair, err := b.read(ctx, blobGet, b.keys(key))
	if err != nil {
		return sessionstore.Blob{}, err
	}
	return blob(pair)
}

// blob reads a lifetime and a value.
func blob(pair []rueidis.RedisMessage) (sessionstore.Blob, error) {
	ms, err := pair[0].AsInt64()
	if err != nil {
		return sessionstore.Blob{}, errDamaged
	}
	data, err := pair[1].ToString()
	if err != nil {
		return sessionstore.Blob{}, errDamaged
	}
	return sessionstore.Blob{Data: []byte(data), TTL: lifetime(ms)}, nil
}

// Swap implements sessionstore.BlobStore.
func (b *blobs) Swap(ctx context.Context, key string, old *sessionstore.Blob, data []byte, ttl time.Duration) (bool, *sessionstore.Blob, error) {
	reply, err := b.write(ctx, blobSwap, b.keys(key), append(mustFind(old), string(data), millis(ttl))).ToArray()
	switch {
	case err != nil:
		return false, nil, b.failed(err)
	case len(reply) == 1:
		return true, nil, nil
	case len(reply) != 3:
		return false, nil, errors.New("redissession: the server's reply makes no sense")
	case reply[2].IsNil():
		return false, nil, nil
	}
	now, err := blob(reply[1:])
	return false, &now, err
}

// mustFind returns the arguments that tell a script which value it must find.
func mustFind(old *sessionstore.Blob) []string {
	if old == nil {
		return []string{"0", ""}
	}
	return []string{"1", string(old.Data)}
}

// Remove implements sessionstore.BlobStore.
func (b *blobs) Remove(ctx context.Context, key string, old *sessionstore.Blob) (bool, error) {
	n, err := b.write(ctx, blobRemove, b.keys(key), mustFind(old)).AsInt64()
	return n > 0, b.failed(err)
}

// Touch implements sessionstore.BlobStore.
func (b *blobs) Touch(ctx context.Context, key string, ttl time.Duration) error {
	return b.failed(b.write(ctx, blobTouch, b.keys(key), []string{millis(ttl), sessionstore.TombstonePrefix}).Error())
}
