// Package phpsession works on the sessions of a PHP application: its cookie, its keys, its locks
// and its formats. So one application in PHP and one in Go serve the same visitors.
//
// Use it if a program in Go joins a PHP application. If no PHP application shares the sessions, use
// package session instead: its sessions keep more promises.
//
//	store, err := redisstore.Open(ctx, server, redissession.PHPLocks()...)
//	sessions, err := phpsession.New(redis.Blobs(), padlock.New(store), phpsession.Config{})
//
// docs/php.md says what PHP has to be set to, and which promises Go keeps and PHP does not.
package phpsession

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/web/session"
	"github.com/padlock-go/padlock/web/session/phpcodec"
	"github.com/padlock-go/padlock/web/session/sessionstore"
)

// PHP's own defaults.
const (
	DefaultPrefix     = "PHPREDIS_SESSION:" // the prefix of the keys of sessions, as the redis extension has it
	DefaultLockSuffix = "_LOCK"             // the suffix of the names of locks, as the redis extension has it
	CookieName        = "PHPSESSID"         // session.name
	IdleTimeout       = 1440 * time.Second  // session.gc_maxlifetime
)

// Config describes how a PHP application keeps the sessions that Go shares with it. The zero value
// stands for PHP with the redis extension and its defaults. A wrong Prefix or LockSuffix causes no
// error: Go and PHP then do not find each other's sessions and locks.
type Config struct {
	Handler phpcodec.Handler // session.serialize_handler; the default is phpcodec.PHP
	Prefix  string           // the prefix of the keys of sessions; the default is DefaultPrefix
	// LockSuffix is appended to the session's key to make the lock's key. It is
	// DefaultLockSuffix by default. Some handlers use ".lock".
	LockSuffix string
}

func (c *Config) setDefaults() {
	if c.Handler == "" {
		c.Handler = phpcodec.PHP
	}
	if c.Prefix == "" {
		c.Prefix = DefaultPrefix
	}
	if c.LockSuffix == "" {
		c.LockSuffix = DefaultLockSuffix
	}
}

// New returns a Manager of sessions that a PHP application uses too. blobs keeps the sessions at
// the keys that PHP uses. locker takes the same locks as PHP. PHP takes a lock with SET NX on a
// string key; the name of the key is the name of the lock.
//
// The cookie and the lifetime are PHP's defaults: PHPSESSID, 1440 s of idleness, and no absolute
// end. The cookie is HttpOnly, SameSite=Lax and Secure; for a PHP application on plain HTTP give
// session.Cookie{Insecure: true}. Options in opts override these defaults. PHP must lock
// (redis.session.locking_enabled), wait long enough (redis.session.lock_retries), and be strict
// about ids (session.use_strict_mode).
//
// A lock's name contains the session's id. New makes the Locker shorten the name in its log and its
// events (Locker.ShowNames).
func New(blobs sessionstore.BlobStore, locker *padlock.Locker, c Config, opts ...session.Option) (*session.Manager, error) {
	if blobs == nil {
		return nil, errors.New("phpsession: New: blobs is nil")
	}
	if locker == nil {
		return nil, errors.New("phpsession: New: locker is nil; PHP writes its sessions under a lock, so one is needed")
	}
	c.setDefaults()
	names := rules{c}
	opts = append([]session.Option{
		session.Cookie{Name: CookieName}, session.ValueCodec(Codec()), session.IdleTimeout(IdleTimeout), session.Lifetime(0), session.Locker(locker),
	}, opts...)
	for i, o := range opts {
		if cookie, ok := o.(session.Cookie); ok && cookie.Name == "" {
			cookie.Name = CookieName
			opts[i] = cookie
		}
	}
	traits := sessionstore.Traits{CommitsNeedLock: true, NoDeadline: true, Rules: names}
	m, err := session.New(sessionstore.FromBlobs(blobs, Format(c.Handler), traits), opts...)
	if err == nil {
		locker.ShowNames(names.shown)
	}
	return m, err
}

// rules are PHP's rules for ids, keys and locks.
type rules struct{ Config }

// NewID makes an id of 256 random bits, in letters that PHP allows.
func (rules) NewID() string {
	var raw [32]byte
	rand.Read(raw[:])
	return hex.EncodeToString(raw[:])
}

const idLetters = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ,-"

func (rules) ValidID(id string) bool {
	return len(id) >= 22 && len(id) <= 256 && strings.Trim(id, idLetters) == ""
}

func (r rules) Key(id string) string { return r.Prefix + id }

func (r rules) Lock(key string) string { return key + r.LockSuffix }

// ShownLock shows the beginning of the id, which is enough to find the key.
func (r rules) ShownLock(key string) string {
	const show = 6
	if id, ok := strings.CutPrefix(key, r.Prefix); ok && len(id) > show {
		return r.Prefix + id[:show] + "…" + r.LockSuffix
	}
	return r.Lock(key)
}

// shown returns the name of a lock for the log of its Locker.
func (r rules) shown(name string) string {
	if key, ok := strings.CutSuffix(name, r.LockSuffix); ok && strings.HasPrefix(key, r.Prefix) {
		return r.ShownLock(key)
	}
	return name
}

func (r rules) CheckKey(key string) error { return phpError(phpcodec.CheckKey(r.Handler, key)) }

// Codec encodes single values as PHP does: see phpcodec.Marshal.
func Codec() session.Codec { return phpValues{} }

type phpValues struct{}

func (phpValues) Marshal(v any) ([]byte, error)      { return phpcodec.Marshal(v) }
func (phpValues) Unmarshal(data []byte, v any) error { return phpcodec.Unmarshal(data, v) }

// Format is the format of PHP's session.serialize_handler. It cannot keep the end of an absolute
// lifetime.
func Format(h phpcodec.Handler) sessionstore.Format { return phpFormat{h} }

type phpFormat struct{ handler phpcodec.Handler }

func (f phpFormat) Parse(data []byte) (sessionstore.Document, error) {
	d, err := phpcodec.Parse(f.handler, data)
	return phpDocument{d}, phpError(err)
}

func (f phpFormat) New(time.Time) sessionstore.Document { return phpDocument{phpcodec.New(f.handler)} }

func (phpFormat) Same(a, b []byte) bool { return phpcodec.Same(a, b) }

func (phpFormat) Add(old []byte, delta int64) ([]byte, error) {
	sum, ok := phpcodec.Incr(old, delta)
	if !ok {
		return nil, sessionstore.ErrNotNumber
	}
	return sum, nil
}

type phpDocument struct{ *phpcodec.Document }

func (d phpDocument) Fields() []sessionstore.Field {
	fields := make([]sessionstore.Field, d.Len())
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
		return fmt.Errorf("%w: %w", sessionstore.ErrKey, err)
	}
	return fmt.Errorf("%w: %w", sessionstore.ErrRefused, err)
}
