package session

import (
	"errors"
	"fmt"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/session/phpcodec"
)

// PHP's own defaults.
const (
	PHPPrefix      = "PHPREDIS_SESSION:" // the prefix of the keys of sessions, as the redis extension has it
	PHPLockSuffix  = "_LOCK"             // the suffix of the names of locks, as the redis extension has it
	PHPCookieName  = "PHPSESSID"         // session.name
	PHPIdleTimeout = 1440 * time.Second  // session.gc_maxlifetime
)

// PHP describes how a PHP application keeps the sessions that Go shares with it. The zero value
// stands for PHP with the redis extension and its defaults.
type PHP struct {
	Handler phpcodec.Handler // session.serialize_handler; the default is phpcodec.PHP
	Prefix  string           // the prefix of the keys of sessions; the default is PHPPrefix
	// LockSuffix is appended to the session's key to make the lock's key. It is PHPLockSuffix by
	// default. Some handlers use ".lock".
	LockSuffix string
}

func (p *PHP) setDefaults() {
	if p.Handler == "" {
		p.Handler = phpcodec.PHP
	}
	if p.Prefix == "" {
		p.Prefix = PHPPrefix
	}
	if p.LockSuffix == "" {
		p.LockSuffix = PHPLockSuffix
	}
}

// NewPHP returns a Manager of sessions that a PHP application uses too. blobs keeps the sessions at
// the keys that PHP uses. locker takes the same locks as PHP. PHP takes a lock with SET NX on a
// string key; the name of the key is the name of the lock.
//
// The cookie and the lifetime are PHP's defaults: PHPSESSID, 1440 s of idleness, and no absolute
// end. The cookie is HttpOnly, SameSite=Lax and Secure; for a PHP application on plain HTTP give
// Cookie{Insecure: true}. Options in opts override these defaults. PHP must lock
// (redis.session.locking_enabled), wait long enough (redis.session.lock_retries), and be strict
// about ids (session.use_strict_mode).
//
// A lock's name contains the session's id. NewPHP makes the Locker shorten the name in its log and
// its events (Locker.ShowNames).
func NewPHP(blobs BlobStore, locker *padlock.Locker, php PHP, opts ...Option) (*Manager, error) {
	if blobs == nil {
		return nil, errors.New("session: NewPHP: blobs is nil")
	}
	if locker == nil {
		return nil, errors.New("session: NewPHP: locker is nil; PHP writes its sessions under a lock, so one is needed")
	}
	php.setDefaults()
	format := PHPFormat(php.Handler)
	own := option(func(c *config) {
		c.ids = idRules{php: true, prefix: php.Prefix, suffix: php.LockSuffix}
		c.codec = PHPCodec()
		c.cookie.Name = PHPCookieName
		c.idle, c.lifetime = PHPIdleTimeout, 0
		c.checkKey = func(key string) error { return phpError(phpcodec.CheckKey(php.Handler, key)) }
	})
	name := option(func(c *config) {
		if c.cookie.Name == "" {
			c.cookie.Name = PHPCookieName
		}
	})
	store := FromBlobs(blobs, format, Traits{CommitsNeedLock: true, NoDeadline: true})
	return New(store, append(append([]Option{own, Locker(locker)}, opts...), name)...)
}

// PHPCodec encodes single values as PHP does: see phpcodec.Marshal.
func PHPCodec() Codec { return phpValues{} }

type phpValues struct{}

func (phpValues) Marshal(v any) ([]byte, error)      { return phpcodec.Marshal(v) }
func (phpValues) Unmarshal(data []byte, v any) error { return phpcodec.Unmarshal(data, v) }

// PHPFormat is the format of PHP's session.serialize_handler. It cannot keep the end of an absolute
// lifetime.
func PHPFormat(h phpcodec.Handler) Format { return phpFormat{h} }

type phpFormat struct{ handler phpcodec.Handler }

func (f phpFormat) Parse(data []byte) (Document, error) {
	d, err := phpcodec.Parse(f.handler, data)
	return phpDocument{d}, phpError(err)
}

func (f phpFormat) New(time.Time) Document { return phpDocument{phpcodec.New(f.handler)} }

func (phpFormat) Same(a, b []byte) bool { return phpcodec.Same(a, b) }

func (phpFormat) Add(old []byte, delta int64) ([]byte, error) {
	sum, ok := phpcodec.Incr(old, delta)
	if !ok {
		return nil, ErrNotNumber
	}
	return sum, nil
}

type phpDocument struct{ *phpcodec.Document }

func (d phpDocument) Fields() []Field {
	fields := make([]Field, d.Len())
	for i := range fields {
		fields[i].Key, fields[i].Value = d.At(i)
	}
	return fields
}

func (d phpDocument) Set(key string, v []byte) error { return phpError(d.Document.Set(key, v)) }
func (d phpDocument) Delete(key string) error        { return phpError(d.Document.Delete(key)) }
func (d phpDocument) Deadline() time.Time            { return time.Time{} }
func (d phpDocument) Encode() (data []byte, err error) {
	data, err = d.Document.Encode()
	return data, phpError(err)
}

// phpError returns ErrKey for a key that the format cannot hold, and ErrRefused for any other error
// of phpcodec.
func phpError(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, phpcodec.ErrKey):
		return fmt.Errorf("%w: %w", ErrKey, err)
	}
	return fmt.Errorf("%w: %w", ErrRefused, err)
}
