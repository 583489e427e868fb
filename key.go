package padlock

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"github.com/padlock-go/padlock/driver"
)

// Key stands for a lock that is held, so that another process can take it over with Locker.Adopt.
// Every program that has the key's text can take or release the lock: treat it as a password.
// Nothing that prints a Key shows its secret, wherever the Key lies. To send a key, write Key.Text.
// Keys are compared with Key.Equal. The zero Key stands for no lock.
type Key struct {
	name   string
	token  driver.Token
	store  string // the id of its store; "" if it is not known
	shared bool
}

// KeyFor returns the key of a lock on name that another program has taken with token, in the given
// mode. With the key, this program can adopt, extend or release that lock. The store must be
// configured to use the same layout and names as that program. If no lock can have this name, token
// or mode, KeyFor returns ErrInvalid.
func KeyFor(name, token string, mode Mode) (Key, error) {
	if mode != ModeExclusive && mode != ModeShared {
		return Key{}, fmt.Errorf("padlock: key: %w: there is no %v", ErrInvalid, mode)
	}
	if err := driver.CheckName(name, &driver.Guarantees{}); err != nil {
		return Key{}, fmt.Errorf("padlock: key: %w", err)
	}
	if err := driver.CheckToken(token); err != nil {
		return Key{}, fmt.Errorf("padlock: key: %w", err)
	}
	return Key{name: name, token: driver.TokenOf(token), shared: mode == ModeShared}, nil
}

// Name returns the name of the lock.
func (k Key) Name() string { return k.name }

// Token returns the secret token of the lock in its store. A program that does not use padlock can
// take the lock over with this token.
func (k Key) Token() string { return k.token.Text() }

// Shared reports whether the lock is shared.
func (k Key) Shared() bool { return k.shared }

// The text of a key is "padlock", the version of its format, a dot, and keyText as JSON in base64.
// A reader ignores fields that it does not know, so a later version may add fields. The version is
// raised for a change that a reader must not ignore.
const (
	keyWord    = "padlock"
	keyVersion = "1"
	keyPrefix  = keyWord + keyVersion + "."
)

// maxKeyText is longer than the text of any key.
const maxKeyText = 4096

type keyText struct {
	Name   []byte `json:"n"`
	Token  string `json:"t"`
	Shared bool   `json:"s,omitempty"`
	Store  string `json:"i,omitempty"`
}

// Text returns the key as one word of ASCII letters, digits and "._-", for ParseKey in another
// process. The text is the secret.
func (k Key) Text() string {
	body, err := json.Marshal(keyText{[]byte(k.name), k.token.Text(), k.shared, k.store})
	if err != nil {
		panic(err) // cannot happen: JSON can write strings, bytes and a bool
	}
	return keyPrefix + base64.RawURLEncoding.EncodeToString(body)
}

// ParseKey reads the text that Key.Text returned. If text is not a key, or has a newer format,
// ParseKey returns ErrInvalid. The error does not repeat the text, which may be a secret.
func ParseKey(text string) (Key, error) {
	if len(text) > maxKeyText {
		return Key{}, fmt.Errorf("%w: key: it has %d bytes, more than any key", ErrInvalid, len(text))
	}
	rest, ok := strings.CutPrefix(text, keyPrefix)
	if !ok {
		return Key{}, notThisFormat(text)
	}
	body, err := base64.RawURLEncoding.DecodeString(rest)
	if err != nil {
		return Key{}, fmt.Errorf("%w: key: it is damaged", ErrInvalid)
	}
	var t keyText
	if err := json.Unmarshal(body, &t); err != nil {
		return Key{}, fmt.Errorf("%w: key: it is damaged", ErrInvalid)
	}
	if err := driver.CheckName(string(t.Name), &driver.Guarantees{}); err != nil {
		return Key{}, fmt.Errorf("key: %w", err)
	}
	if err := driver.CheckToken(t.Token); err != nil {
		return Key{}, fmt.Errorf("key: %w", err)
	}
	if !isStoreID(t.Store) {
		return Key{}, fmt.Errorf("%w: key: it is damaged", ErrInvalid)
	}
	return Key{string(t.Name), driver.TokenOf(t.Token), t.Store, t.Shared}, nil
}

// MarshalText returns an error. So encoders of JSON, XML and logs neither write the secret nor lose
// the key silently.
func (k Key) MarshalText() ([]byte, error) { return nil, errKeyIsSecret }

var errKeyIsSecret = errors.New("padlock: a Key is a secret and no encoder writes it; write Key.Text()")

// Equal reports whether k and other stand for the same hold, in the same mode, and name the same
// store.
func (k Key) Equal(other Key) bool {
	return k.name == other.name && k.token.Text() == other.token.Text() && k.store == other.store && k.shared == other.shared
}

// notThisFormat returns the error for a text that does not begin like a key.
func notThisFormat(text string) error {
	if rest, ok := strings.CutPrefix(text, keyWord); ok {
		version, _, dot := strings.Cut(rest, ".")
		if n, err := strconv.ParseUint(version, 10, 16); err == nil && dot && n > 0 {
			return fmt.Errorf("%w: key: it has format %d, and this padlock knows format %s: use a newer padlock", ErrInvalid, n, keyVersion)
		}
	}
	return fmt.Errorf("%w: key: it does not begin with %q", ErrInvalid, keyPrefix)
}

// isStoreID reports whether id is "" or can be the id of a store.
func isStoreID(id string) bool {
	return len(id) <= driver.MaxStoreID && strings.Trim(id, storeIDLetters) == ""
}

const storeIDLetters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_"

// String returns the name of the lock without the secret.
func (k Key) String() string { return "key of " + quote(k.name) }

// LogValue returns the text of String.
func (k Key) LogValue() slog.Value { return slog.StringValue(k.String()) }

// ExtendKey extends the lease of the lock that key stands for, so that it lasts at least ttl from
// now. Unlike Adopt, ExtendKey takes nothing over: the key and the exporter's lock stay valid.
// ExtendKey returns how long the lock can be used from now on. Like Lock.Remaining, this time is a
// little shorter than the lease.
//
// After ErrExpired and ErrLost the lock is gone. Every other error leaves the lock as it was. If
// the store binds its locks to a process or a connection, ExtendKey returns errors.ErrUnsupported.
// ExtendKey is safe for concurrent use.
func (l *Locker) ExtendKey(ctx context.Context, key Key, ttl time.Duration) (time.Duration, error) {
	l.demand(ctx)
	err := driver.CheckTTL("TTL", ttl, &l.guarantees)
	if err == nil {
		err = l.beginKey(ctx, key)
	}
	if err != nil {
		return 0, failed(OpExtend, key.name, err)
	}
	defer l.endCalls(1)
	for i := 0; ; i++ {
		sent := l.clock.Now()
		g, err := l.store.Extend(ctx, key.name, key.Token(), ttl)
		if err == nil {
			err = l.checkLease(true, &g) // only holds that are bound to nothing have keys, and all of them have leases
		}
		switch {
		case err == nil:
			return max(0, usableFor(sent, g).Sub(l.clock.Now())), nil
		case definite(err) || i == len(retryAfter) || l.sleep(ctx, retryAfter[i]) != nil:
			return 0, failed(OpExtend, key.name, callerError(ctx, err))
		}
	}
}

// ReleaseKey releases the lock that key stands for, without adopting it. The exporter's lock ends
// with ErrLost. If a reply is lost, ReleaseKey repeats the request a few times, but not after the
// end of ctx.
//
// ReleaseKey returns nil if the lock was held until now. The errors are:
//
//   - ErrExpired: the lease had run out, and nobody has taken the name since;
//   - ErrLost: another client has taken the name, the lock was released or adopted before, or the
//     store cannot tell;
//   - ErrUncertain: the lock is released, or will end with its lease;
//   - ErrInvalid: the key is not valid here, or the cool-down is out of range. A wrong cool-down is
//     cut or left out, and the lock is released;
//   - errors.ErrUnsupported: the locks of the store are bound to a process or a connection, or the
//     store has no cool-downs. Without cool-downs the lock is released.
//
// ReleaseKey is safe for concurrent use.
func (l *Locker) ReleaseKey(ctx context.Context, key Key, opts ...ReleaseOption) error {
	l.demand(ctx)
	keep, wrong := l.coolDownOf(0, opts)
	err := l.beginKey(ctx, key)
	if err == nil {
		err = l.releaseKey(ctx, key, keep)
		l.endCalls(1)
	}
	if err != nil || wrong != nil {
		return failed(OpRelease, key.name, err, wrong)
	}
	return nil
}

func (l *Locker) releaseKey(ctx context.Context, key Key, keep time.Duration) error {
	unsure := false
	for i := 0; ; i++ {
		out, err := l.store.Release(ctx, key.name, key.Token(), keep)
		switch {
		case err == nil && out == driver.OutcomeGone && unsure:
			return errGoneUnsure
		case err == nil:
			return verdict(nil, out, false, nil)
		case cannotCool(out, err) || errors.Is(err, ErrClosed) || errors.Is(err, ErrInvalid):
			return err
		}
		unsure = unsure || !errors.Is(err, ErrUnavailable)
		if i == len(retryAfter) || l.sleep(ctx, retryAfter[i]) != nil {
			if err = callerError(ctx, err); unsure {
				err = withUncertain(err)
			}
			return err
		}
	}
}

// beginKey checks a key, and checks that this Locker can send requests for it. Close waits until
// endCalls is called.
func (l *Locker) beginKey(ctx context.Context, key Key) error {
	switch {
	case l.guarantees.Bound != driver.BoundToNothing && !l.guarantees.Detached:
		return errors.ErrUnsupported
	case key.Token() == "":
		return errEmptyKey
	}
	if err := driver.CheckToken(key.Token()); err != nil {
		return err
	}
	if err := l.checkStore(ctx, &key); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.beginCall()
}

var errEmptyKey = fmt.Errorf("%w: key: it is empty", ErrInvalid)
