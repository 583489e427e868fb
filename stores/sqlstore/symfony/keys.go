package symfony

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/storekit"
	"github.com/padlock-go/padlock/stores/sqlstore"
)

// minHashed is the length from which Symfony stores a hash instead of the name itself.
const minHashed = 64

// storedID returns the text that stands for a name in the table: the name itself or its SHA-256. It
// makes the same choice as PHP. If PHP cannot store the name, storedID returns the SHA-256.
func (l Layout) storedID(e sqlstore.Engine, name string) string {
	if l == Symfony && len(name) < minHashed && storable(e, name) {
		return name
	}
	return hashed(name)
}

func hashed(name string) string {
	sum := sha256.Sum256([]byte(name))
	return hex.EncodeToString(sum[:])
}

// storable reports whether the engine accepts the bytes of a name as text.
func storable(e sqlstore.Engine, name string) bool {
	switch e {
	case sqlstore.PostgreSQL:
		return utf8.ValidString(name) && !strings.Contains(name, "\x00")
	case sqlstore.MySQL:
		return utf8.ValidString(name)
	}
	return true
}

// checkName returns the error for a name that the store cannot lock. MySQL ignores spaces at the
// end of a text, so "a " would be the same lock as "a".
func (s *Store) checkName(name string) error {
	if err := driver.CheckName(name, &s.promises); err != nil {
		return err
	}
	if s.engine == sqlstore.MySQL && strings.HasSuffix(s.layout.storedID(s.engine, name), " ") {
		return storekit.Invalidf("name: it ends with a space, which MySQL ignores")
	}
	return nil
}

// Location implements driver.Places. It returns the table and the row of the name.
func (s *Store) Location(name string) (string, error) {
	if err := s.checkName(name); err != nil {
		return "", err
	}
	return s.cfg.table + " " + s.layout.storedID(s.engine, name), nil
}

// StoreID implements driver.Places: the table has no room for an id.
func (s *Store) StoreID(context.Context) (string, error) { return "", errors.ErrUnsupported }

// SamePlace implements driver.Places. The store cannot tell: a server has many addresses.
func (s *Store) SamePlace(driver.Store) bool { return false }

// maxStored is the size of the column of the token in PHP's table.
const maxStored = 44

// storedToken returns the text that stands for a token in the table. Tokens of padlock and of PHP
// have 44 characters, and the table contains them as they are. Any other token may be too long for
// the column or may not be valid text, so the table contains its hash.
func storedToken(token string) string {
	odd := func(r rune) bool { return r <= ' ' || r > '~' }
	if len(token) <= maxStored && !strings.ContainsFunc(token, odd) {
		return token
	}
	sum := sha256.Sum256([]byte(token))
	return base64.StdEncoding.EncodeToString(sum[:])
}

// validate checks a request.
func (s *Store) validate(r *driver.Request) error {
	if err := cmp.Or(s.checkName(r.Name), r.Validate(&s.promises)); err != nil {
		return err
	}
	if r.Shared {
		return fmt.Errorf("the table of Symfony has no shared locks: %w", errors.ErrUnsupported)
	}
	return nil
}
