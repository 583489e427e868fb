package padlock

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"time"

	"github.com/padlock-go/padlock/driver"
)

// Key stands for a live lock, so that another process can take it over with
// Locker.Adopt. Whoever has its text can take or release the lock: treat it as
// a password. The zero Key stands for nothing.
type Key struct {
	name, token string
	shared      bool
}

// keyPrefix begins the text of a key, and says how to read the rest.
const keyPrefix = "padlock1."

// maxKeyText is more than the text of any key needs.
const maxKeyText = 4096

type keyText struct {
	Name   []byte `json:"n"`
	Token  string `json:"t"`
	Shared bool   `json:"s,omitempty"`
}

// Name returns the name that the lock is on.
func (k Key) Name() string { return k.name }

// MarshalText returns the key as one word of ASCII letters, digits and "._-".
func (k Key) MarshalText() ([]byte, error) {
	body, err := json.Marshal(keyText{[]byte(k.name), k.token, k.shared})
	if err != nil {
		return nil, err
	}
	return []byte(keyPrefix + base64.RawURLEncoding.EncodeToString(body)), nil
}

// UnmarshalText reads what MarshalText wrote. The error of a text that is no
// key answers errors.Is for ErrInvalid and does not repeat the text.
func (k *Key) UnmarshalText(text []byte) error {
	rest, ok := strings.CutPrefix(string(text), keyPrefix)
	if !ok || len(text) > maxKeyText {
		return fmt.Errorf("%w: key: it does not begin with %q or is too long", ErrInvalid, keyPrefix)
	}
	body, err := base64.RawURLEncoding.DecodeString(rest)
	if err != nil {
		return fmt.Errorf("%w: key: it is damaged", ErrInvalid)
	}
	var t keyText
	if err := json.Unmarshal(body, &t); err != nil {
		return fmt.Errorf("%w: key: it is damaged", ErrInvalid)
	}
	if err := driver.CheckName(string(t.Name), &driver.Guarantees{}); err != nil {
		return fmt.Errorf("key: %w", err)
	}
	if err := driver.CheckToken(t.Token); err != nil {
		return fmt.Errorf("key: %w", err)
	}
	*k = Key{string(t.Name), t.Token, t.Shared}
	return nil
}

// String names the lock and hides the secret.
func (k Key) String() string { return "key of " + quote(k.name) }

// Format hides the secret from all verbs of package fmt.
func (k Key) Format(f fmt.State, _ rune) { io.WriteString(f, k.String()) }

// LogValue hides the secret from logs.
func (k Key) LogValue() slog.Value { return slog.StringValue(k.String()) }

// ExtendKey makes the lease of the lock that key stands for last at least ttl
// from now. Unlike Adopt it takes nothing over: the key stays good, and so does
// the exporter's lock. It returns for how long the lock is good then, by the
// clock of this process, with the margins of Lock.Remaining.
//
// ErrExpired and ErrLost mean that the lock is gone, after every other error it
// is as good as before. Stores whose locks are bound to a process or a
// connection answer errors.ErrUnsupported. It is safe for concurrent use.
func (l *Locker) ExtendKey(ctx context.Context, key Key, ttl time.Duration) (time.Duration, error) {
	err := driver.CheckTTL("TTL", ttl, &l.guarantees)
	if err == nil {
		err = l.beginKey(key)
	}
	if err != nil {
		return 0, failed(OpExtend, key.name, err)
	}
	defer l.endKey()
	for i := 0; ; i++ {
		sent := l.clock.Now()
		g, err := l.store.Extend(ctx, key.name, key.token, ttl)
		switch {
		case err == nil:
			return max(0, usableFor(sent, g).Sub(l.clock.Now())), nil
		case definite(err) || i == len(retryAfter) || l.sleep(ctx, retryAfter[i]) != nil:
			return 0, failed(OpExtend, key.name, callerError(ctx, err))
		}
	}
}

// ReleaseKey gives back the lock that key stands for, without adopting it. The
// exporter finds its lock lost. If a reply is lost the request is repeated, while
// ctx lasts.
//
// Nil means that the lock was held until now. ErrExpired: its lease had run out,
// and nobody took the name since. ErrLost: somebody did, it was released or
// adopted before, or it is not known. ErrUncertain: the lock is released, or its
// lease will run out. Stores whose locks are bound to a process or a connection
// answer errors.ErrUnsupported. It is safe for concurrent use.
func (l *Locker) ReleaseKey(ctx context.Context, key Key, opts ...ReleaseOption) error {
	keep := coolDownOf(0, opts)
	err := driver.CheckKeep("CoolDown", keep, &l.guarantees)
	if err == nil {
		err = l.beginKey(key)
	}
	if err == nil {
		err = l.releaseKey(ctx, key, keep)
		l.endKey()
	}
	if err != nil {
		return failed(OpRelease, key.name, err)
	}
	return nil
}

func (l *Locker) releaseKey(ctx context.Context, key Key, keep time.Duration) error {
	unsure := false
	for i := 0; ; i++ {
		out, err := l.store.Release(ctx, key.name, key.token, keep)
		switch {
		case err == nil && out == driver.Gone && unsure:
			return inDoubt(ErrLost) // or it was the request before
		case err == nil:
			return verdict(nil, out, false, nil)
		case errors.Is(err, ErrClosed) || errors.Is(err, ErrInvalid):
			return err
		}
		unsure = unsure || !errors.Is(err, ErrUnavailable)
		if i == len(retryAfter) || l.sleep(ctx, retryAfter[i]) != nil {
			if err = callerError(ctx, err); unsure {
				err = inDoubt(err)
			}
			return err
		}
	}
}

// beginKey checks a key, and whether a request about it can be made here. Close
// waits until endKey.
func (l *Locker) beginKey(key Key) error {
	switch {
	case l.guarantees.Bound != driver.ToNothing:
		return errors.ErrUnsupported
	case key.token == "":
		return errEmptyKey
	}
	if err := driver.CheckToken(key.token); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return ErrClosed
	}
	l.attempts++
	return nil
}

var errEmptyKey = fmt.Errorf("%w: key: it is empty", ErrInvalid)

func (l *Locker) endKey() {
	l.mu.Lock()
	l.attemptOver()
	l.mu.Unlock()
}
