package padlock

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"strings"

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
	if err := driver.CheckName(string(t.Name)); err != nil {
		return fmt.Errorf("key: %w", err)
	}
	if t.Token == "" {
		return fmt.Errorf("%w: key: it has no token", ErrInvalid)
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
