package padlockweb

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"
)

// Right says what a visitor may do. Each right includes those before it.
type Right int

const (
	// RightNone allows only /healthz, /readyz and the login.
	RightNone Right = iota
	// RightRead allows a visitor to see locks.
	RightRead
	// RightBreak allows a visitor to see locks and to break them.
	RightBreak
)

// String returns "none", "read" or "break".
func (r Right) String() string {
	if r < RightNone || r > RightBreak {
		return fmt.Sprintf("Right(%d)", int(r))
	}
	return [...]string{"none", "read", "break"}[r]
}

// token is a line of a token file.
type token struct {
	name   string
	hash   [sha256.Size]byte // of the secret
	right  Right
	words  string // the third field: the rights as the file has them
	prefix string // the token is valid for names that begin with it
	tenant bool   // package padlockapi puts the prefix before the names
	hashed bool   // the file has only the hash of the secret
}

// Tokens are the tokens that a Handler accepts. They are safe for concurrent use.
//
// A token file has a line for each token. Empty lines and lines that begin with # are ignored. The
// fields are separated by spaces or tabs:
//
//	NAME SECRET RIGHTS [PREFIX [tenant]]
//
// NAME appears in the audit log. SECRET is the token itself, of at least 20 characters, or
// "sha256:" and the SHA-256 of the token in hexadecimal digits, so that the file holds no secret.
// RIGHTS is "read", "break", "acquire" or "ask", or several of these words with commas between them.
// A token with "break" may also read. "acquire" and "ask" are for package padlockapi only. With
// PREFIX the token is good only for locks whose names begin with PREFIX. A prefix with spaces is a Go string in
// double quotes. With the word "tenant", package padlockapi puts PREFIX before each name that the
// visitor sends. No PREFIX of a tenant may be the beginning of another tenant's, because the first
// tenant could then send names of the second: end each with a character such as ':'.
type Tokens struct {
	path string // "" if the tokens came from ParseTokens

	mu      sync.Mutex
	list    []token
	looked  time.Time // when the file was last looked at
	version fileVersion
	err     error // the error of the last attempt to read the file, or nil
	exposed bool  // every user of the machine can read a secret in the file
}

// fileVersion tells whether a file has changed.
type fileVersion struct {
	size    int64
	changed time.Time
	mode    fs.FileMode
}

// minSecret is the length of the shortest token. A token of 20 random letters cannot be guessed.
const minSecret = 20

// maxTokenFile is the size of the largest token file.
const maxTokenFile = 1 << 20

// reloadEvery is how often the file of tokens is looked at.
const reloadEvery = time.Second

// ParseTokens reads the text of a token file. An error names the line and contains no secret.
func ParseTokens(text []byte) (*Tokens, error) {
	list, err := parseTokens(text)
	if err != nil {
		return nil, err
	}
	return &Tokens{list: list}, nil
}

// OpenTokens reads a token file. The Handler looks for changes of the file when requests come, at
// most once a second. If the changed file is invalid or missing, the tokens that were read last
// stay good and the Handler logs the error. OpenTokens refuses a file that other users can write.
func OpenTokens(path string) (*Tokens, error) {
	t := &Tokens{path: path}
	if err := t.load(); err != nil {
		return nil, err
	}
	return t, nil
}

// warn reports a file whose secrets every user of this machine can read.
func (t *Tokens) warn(log *slog.Logger) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.exposed {
		log.Warn("every user of this machine can read the tokens; chmod 600 the file", "file", t.path)
	}
}

// load reads the file. The caller holds t.mu, unless t is not in use yet.
func (t *Tokens) load() error {
	info, err := os.Stat(t.path)
	if err != nil {
		return fmt.Errorf("the token file cannot be read: %w", err)
	}
	t.version = fileVersion{info.Size(), info.ModTime(), info.Mode()}
	if runtime.GOOS != "windows" && info.Mode().Perm()&0o022 != 0 {
		return fmt.Errorf("the token file %s can be written by other users; chmod 600 it", t.path)
	}
	if info.Size() > maxTokenFile {
		return fmt.Errorf("the token file %s has %d bytes; at most %d are allowed", t.path, info.Size(), maxTokenFile)
	}
	text, err := os.ReadFile(t.path)
	if err != nil {
		return fmt.Errorf("the token file cannot be read: %w", err)
	}
	list, err := parseTokens(text)
	if err != nil {
		return fmt.Errorf("the token file %s: %w", t.path, err)
	}
	t.list = list
	secrets := slices.ContainsFunc(list, func(k token) bool { return !k.hashed })
	t.exposed = secrets && runtime.GOOS != "windows" && info.Mode().Perm()&0o004 != 0
	return nil
}

// refresh reads the token file again if the file has changed. If the new file cannot be used,
// refresh returns an error. It returns the same error only once, so that the log is not filled.
func (t *Tokens) refresh(now time.Time) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.path == "" || now.Sub(t.looked) < reloadEvery || t.version.mode&fs.ModeNamedPipe != 0 { // a pipe can be read only once
		return nil
	}
	t.looked = now
	info, err := os.Stat(t.path)
	if err == nil && t.err == nil && t.version == (fileVersion{info.Size(), info.ModTime(), info.Mode()}) {
		return nil
	}
	before := t.err
	t.err = t.load()
	if before != nil && t.err != nil && before.Error() == t.err.Error() {
		return nil
	}
	return t.err
}

// Refresh reads the token file again if it has changed, at most once a second. If the new file
// cannot be used, the tokens that were read last stay good, and Refresh returns an error. It
// returns the same error only once, so that a log is not filled. The Handler calls Refresh by
// itself.
func (t *Tokens) Refresh() error { return t.refresh(time.Now()) }

// Find returns the token with the given secret, for package padlockapi: its name, its rights as
// words separated by commas, its prefix, and whether it has the word "tenant". The time that Find
// takes does not depend on the secret.
func (t *Tokens) Find(secret string) (name, rights, prefix string, tenant, ok bool) {
	k, ok := t.find(secret)
	return k.name, k.words, k.prefix, k.tenant, ok
}

// find returns the token with the given secret. It compares the secret with every token, and the
// time that this takes does not depend on the secret.
func (t *Tokens) find(secret string) (token, bool) {
	hash := sha256.Sum256([]byte(secret))
	t.mu.Lock()
	defer t.mu.Unlock()
	found := -1
	for i := range t.list {
		same := subtle.ConstantTimeCompare(hash[:], t.list[i].hash[:])
		found = subtle.ConstantTimeSelect(same, i, found)
	}
	if found < 0 {
		return token{}, false
	}
	return t.list[found], true
}

// current returns the token as it is in the file now. ok is false if the file no longer has the
// token.
func (t *Tokens) current(k token) (now token, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, other := range t.list {
		if other.name == k.name && other.hash == k.hash {
			return other, true
		}
	}
	return token{}, false
}

func parseTokens(text []byte) ([]token, error) {
	var list []token
	names := map[string]bool{}
	hashes := map[[sha256.Size]byte]bool{}
	lines := bufio.NewScanner(bytes.NewReader(text))
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || line[0] == '#' {
			continue
		}
		k, err := parseToken(line)
		switch {
		case err != nil:
		case names[k.name]:
			err = fmt.Errorf("the name %q is there twice", k.name)
		case hashes[k.hash]:
			err = errors.New("another line has the same token")
		default:
			err = k.checkTenant(list)
		}
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		names[k.name], hashes[k.hash] = true, true
		list = append(list, k)
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	if len(list) == 0 {
		return nil, errors.New("it has no token")
	}
	return list, nil
}

// parseToken reads a line: name, secret, rights and possibly a prefix.
func parseToken(line string) (k token, err error) {
	name, rest := cutField(line)
	secret, rest := cutField(rest)
	rights, prefix := cutField(rest)
	k.name = name
	if strings.IndexFunc(name, func(r rune) bool { return !unicode.IsPrint(r) }) >= 0 || len(name) > 64 {
		return k, errors.New("the name has a control character, or more than 64 bytes")
	}
	if err = k.parseRights(rights); err != nil {
		return k, err
	}
	if k.hash, err = parseSecret(secret); err != nil {
		return k, err
	}
	k.hashed = strings.HasPrefix(secret, hashMark)
	prefix, k.tenant = cutTenant(prefix)
	k.prefix, err = parsePrefix(prefix)
	if err == nil && k.tenant && k.prefix == "" {
		err = errors.New("a tenant needs a prefix before the word tenant")
	}
	return k, err
}

// checkTenant refuses two tenants one of which can send names of the other.
func (k *token) checkTenant(others []token) error {
	for _, other := range others {
		if !k.tenant || !other.tenant || k.prefix == other.prefix {
			continue
		}
		if strings.HasPrefix(k.prefix, other.prefix) || strings.HasPrefix(other.prefix, k.prefix) {
			return fmt.Errorf("the tenants %q and %q can reach each other's names, because one prefix begins with the other; end each with ':'", other.name, k.name)
		}
	}
	return nil
}

// parseRights reads the third field.
func (k *token) parseRights(words string) error {
	for word := range strings.SplitSeq(words, ",") {
		switch word {
		case "read":
			k.right = max(k.right, RightRead)
		case "break":
			k.right = RightBreak
		case "acquire", "ask": // no rights on the page
		default:
			return errors.New("the third field must be read, break, acquire or ask, or several of them with commas; a line is NAME SECRET RIGHTS [PREFIX [tenant]]")
		}
	}
	if k.words = words; k.right == RightBreak {
		k.words += ",read"
	}
	return nil
}

// cutTenant cuts the word tenant from the end of a line.
func cutTenant(text string) (prefix string, tenant bool) {
	prefix, tenant = strings.CutSuffix(text, "tenant")
	if trimmed := strings.TrimRight(prefix, " \t"); tenant && trimmed != prefix {
		return trimmed, true
	}
	return text, false
}

// hashMark stands before the hash of a token.
const hashMark = "sha256:"

func parseSecret(secret string) (hash [sha256.Size]byte, err error) {
	if digits, ok := strings.CutPrefix(secret, hashMark); ok {
		raw, err := hex.DecodeString(digits)
		if err != nil || len(raw) != sha256.Size {
			return hash, errors.New("sha256: must be followed by 64 hexadecimal digits")
		}
		return [sha256.Size]byte(raw), nil
	}
	if len(secret) < minSecret {
		return hash, fmt.Errorf("the token has %d characters, at least %d are needed; openssl rand -hex 32 makes one", len(secret), minSecret)
	}
	return sha256.Sum256([]byte(secret)), nil
}

func parsePrefix(text string) (string, error) {
	if strings.HasPrefix(text, `"`) {
		prefix, err := strconv.Unquote(text)
		if err != nil {
			return "", errors.New("the prefix is not a Go string in double quotes")
		}
		return prefix, nil
	}
	if strings.ContainsAny(text, " \t") {
		return "", errors.New("a prefix with spaces must be in double quotes")
	}
	return text, nil
}

// cutField splits a line after its first field.
func cutField(line string) (field, rest string) {
	i := strings.IndexAny(line, " \t")
	if i < 0 {
		return line, ""
	}
	return line[:i], strings.TrimLeft(line[i:], " \t")
}
