package command

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/driver"
)

// keyHelp is in the help of every verb that reads a key.
const keyHelp = `The key is read from the file of --key-file, else from $PADLOCK_KEY, else from
standard input. It is never read from the command line, which every user of the
machine can see. The key is all that is needed to take over, extend or release the
lock.`

// maxKey limits how many bytes are read as a key. The text of every key is shorter, and that of the key
// of one lock is shorter than keyRoom.
const (
	maxKey  = 64 << 10
	keyRoom = 8192
)

// keyJoint stands between the words of the key of a path: those of its folders and of itself.
const keyJoint = "+"

// lastName returns the name of the lock that a person asked for, which is behind its folders.
func lastName(keys []padlock.Key) string { return keys[len(keys)-1].Name() }

// readKey reads the key of one lock.
func (a *app) readKey(file string) (padlock.Key, error) {
	keys, err := a.readKeys(file)
	switch {
	case err != nil:
		return padlock.Key{}, err
	case len(keys) > 1:
		return padlock.Key{}, usage("the key is of the path %s and its folders; only extend and release take it", show(lastName(keys)))
	}
	return keys[0], nil
}

// readKeys reads a key from a file, the environment or standard input.
func (a *app) readKeys(file string) ([]padlock.Key, error) {
	text, from := []byte(os.Getenv("PADLOCK_KEY")), "in PADLOCK_KEY"
	if file != "" || len(text) == 0 {
		var err error
		if text, from, err = readSecret(file); err != nil {
			return nil, fail(exitUsage, "usage", "", "the key cannot be read: %s", pathReason(err))
		}
	}
	text = bytes.TrimSpace(text)
	keys, err := parseKeys(string(text))
	switch {
	case len(text) == 0:
		return nil, usage("there is no key %s; pass the key that padlock acquire printed by --key-file FILE, in PADLOCK_KEY, or on standard input", from)
	case err != nil:
		return nil, usage("the text %s is not a valid key: %s; copy the whole line that padlock acquire printed", from, reason(err))
	}
	return keys, nil
}

func parseKeys(text string) (keys []padlock.Key, err error) {
	for word := range strings.SplitSeq(text, keyJoint) {
		key, err := padlock.ParseKey(word)
		if err != nil {
			return nil, err
		}
		keys = append(keys, key)
	}
	return keys, nil
}

// readSecret reads a key or a token from a file or, without one, from standard input. It also says
// where that is.
func readSecret(file string) (text []byte, from string, err error) {
	in, from := os.Stdin, "on standard input"
	switch {
	case file != "":
		if in, err = os.Open(file); err != nil {
			return nil, "", err
		}
		defer in.Close()
		from = "in " + show(file)
	case isTerminal(os.Stdin):
		return nil, from, nil // users would think that padlock hangs
	}
	text, err = io.ReadAll(io.LimitReader(in, maxKey))
	return text, from, err
}

// keyFlag defines --key-file.
func keyFlag(c *cobra.Command, file *string, what string) {
	c.Flags().StringVar(file, "key-file", "", what)
}

// keyPlace is the place where the key of a new hold will be written. It is prepared before the lock
// is taken or adopted, and takes up the space on the disk that a key needs. Otherwise a lock could
// be left behind without its key.
type keyPlace struct {
	file string
	tmp  *os.File // nil means standard output
}

func newKeyPlace(file string, room int) (*keyPlace, error) {
	if file == "" {
		// A closed pipe must cause an error and not end this process.
		signal.Ignore(syscall.SIGPIPE)
		return &keyPlace{}, nil
	}
	if err := checkKeyFile(file); err != nil {
		return nil, fail(exitUsage, "usage", "", "--key-file %s: %s", show(file), err)
	}
	tmp, err := os.CreateTemp(filepath.Dir(file), ".padlock-key-*") // with mode 0600
	if err != nil {
		return nil, fail(exitOutput, "output", "", "the key could not be written to %s: %s; no lock was taken or changed", show(file), pathReason(err))
	}
	place := &keyPlace{file, tmp}
	if _, err := tmp.Write(make([]byte, room)); err != nil {
		place.drop()
		return nil, fail(exitOutput, "output", "", "the key could not be written to %s: %s; no lock was taken or changed", show(file), pathReason(err))
	}
	return place, nil
}

// checkKeyFile returns an error for a file that must not be replaced, because it is not
// the file of a key. Another user may have made a link, so a link is no such file.
func checkKeyFile(file string) error {
	st, err := os.Lstat(file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil // it will be created, or its directory is missing
	case err != nil:
		return errors.New(pathReason(err))
	case !st.Mode().IsRegular():
		return errors.New("not a regular file; without --key-file the key goes to standard output")
	}
	return holdsOnlyKey(file)
}

// holdsOnlyKey returns an error if the file holds something other than a key. An empty file is
// good.
func holdsOnlyKey(file string) error {
	f, err := os.Open(file)
	if err != nil {
		return errors.New(pathReason(err))
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxKey+1))
	if err != nil {
		return errors.New(pathReason(err))
	}
	if text = bytes.TrimSpace(text); len(text) == 0 {
		return nil
	}
	if _, err := parseKeys(string(text)); err != nil {
		return errors.New("it holds something other than a key; name a new file, or one with a key")
	}
	return nil
}

// drop removes the temporary file, unless it was already renamed to its final name.
func (p *keyPlace) drop() {
	if p.tmp != nil {
		_ = p.tmp.Close()
		_ = os.Remove(p.tmp.Name())
	}
}

// write puts the key into its file. Other processes see the whole key or none.
func (p *keyPlace) write(word string) error {
	_, err := p.tmp.WriteAt([]byte(word+"\n"), 0)
	if err == nil {
		err = p.tmp.Truncate(int64(len(word) + 1))
	}
	if err == nil {
		err = p.tmp.Sync()
	}
	if err = errors.Join(err, p.tmp.Close()); err == nil {
		err = os.Rename(p.tmp.Name(), p.file)
	}
	if err == nil {
		p.tmp = nil
	}
	return err
}

// handedOver is what acquire and adopt print in JSON.
type handedOver struct {
	named
	Key     string    `json:"key,omitempty"`      // empty if the key is in a file
	KeyFile string    `json:"key_file,omitempty"` // the file with the key
	Shared  bool      `json:"shared"`
	Fence   uint64    `json:"fence,omitempty"`
	Seconds float64   `json:"seconds"` // remaining time for which the lock is held
	Until   time.Time `json:"until"`

	// UnseenBy lists the programs that share the store's other locks but do not see this one.
	UnseenBy []string `json:"unseen_by,omitempty"`
}

// handOver gives the key of the last lock and its folders to the user. If that fails, it releases the
// locks, because nobody else could do so.
func (a *app) handOver(l *padlock.Locker, locks []*padlock.Lock, place *keyPlace) error {
	lock := locks[len(locks)-1]
	word, err := exported(locks...)
	if err == nil {
		left := lock.Remaining()
		for _, folder := range locks {
			left = min(left, folder.Remaining())
		}
		err = a.tellKey(lock.Name(), handedOver{
			named: newNamed(lock.Name()), Key: word, Shared: lock.Shared(), Fence: lock.Fence(),
			Seconds: left.Seconds(), Until: time.Now().Add(left).UTC(), UnseenBy: unseenBy(l),
		}, place)
	}
	if err == nil {
		return nil
	}
	why := fail(exitOutput, "output", lock.Name(), "the key of %s could not be written: %s; the lock was released", show(lock.Name()), pathReason(err))
	if err := releaseEach(locks); err != nil {
		why.note.Message = "the key of " + show(lock.Name()) + " could not be written, and " + a.place() + " did not confirm the release; the lock ends with its lease"
	}
	return why
}

// tellKey writes the key of a lock to its place, and tells a person at a terminal what it is for.
func (a *app) tellKey(name string, out handedOver, place *keyPlace) error {
	word := out.Key
	if place.tmp != nil {
		if err := place.write(word); err != nil {
			return err
		}
		out.Key, out.KeyFile = "", place.file
	}
	a.remark(name, "%s is locked for %s; padlock extend prolongs that, padlock release ends it", show(name),
		span(time.Duration(out.Seconds*float64(time.Second))))
	if len(out.UnseenBy) > 0 && !a.json && isTerminal(os.Stderr) { // standard output may be a pipe
		a.say(fail(0, "remark", name, "some programs do not see the lock of %s (%s); they see that of padlock run",
			show(name), strings.Join(out.UnseenBy, ", ")).note)
	}
	switch {
	case a.json:
		return a.print(a.stdout, out)
	case out.KeyFile != "":
		return nil
	}
	_, err := io.WriteString(a.stdout, word+"\n")
	return err
}

// unseenBy returns the programs that do not see a lock taken by "padlock acquire". Such a lock
// stays held although no process of its holder is running. These programs see a lock only while a
// process holds it.
func unseenBy(l *padlock.Locker) []string {
	if l.Guarantees().Bound == driver.BoundToNothing {
		return nil
	}
	return []string{"flock(1)", "PHP"}
}

// lasting opens a store whose locks can outlive this process.
func (a *app) lasting(ctx context.Context, verb, name string) (*padlock.Locker, error) {
	l, err := a.locker(ctx, name)
	if err != nil {
		return nil, err
	}
	if g := l.Guarantees(); g.Bound != 0 && !g.Detached {
		a.close(l)
		return nil, fail(exitUsage, "unsupported", name, "a lock in %s ends with the %s that took it, so padlock %s cannot keep one; use padlock run, or a store with leases: padlock stores lists them", a.place(), g.Bound, verb)
	}
	return l, nil
}
