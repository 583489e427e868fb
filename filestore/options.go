package filestore

import (
	"context"
	"fmt"
	"net/url"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/padlock-go/padlock/driver"
)

// Option changes what Open does.
type Option func(*config)

type config struct {
	access  access
	create  bool
	network bool
	maxOpen int
	clock   driver.Clock

	// Replaced in tests.
	wall                func() time.Time
	firstLook, slowLook time.Duration
	gatePatience        time.Duration
	headPatience        time.Duration
	probes              bool // the lock is tried to learn who has it
}

// access is who else may use the directory.
type access int

const (
	private access = iota
	group
	world
)

func (a access) perm() uint32 { return [...]uint32{0o600, 0o660, 0o666}[a] }

// DefaultMaxOpen is how many descriptors of lock files are kept open for the
// next Acquire when nobody holds them.
const DefaultMaxOpen = 256

// AllowGroup allows a directory that its group may write to, and makes lock
// files that the group may use. Every member of that group can hold, and
// falsify, every lock.
func AllowGroup() Option { return func(c *config) { c.access = max(c.access, group) } }

// AllowWorld allows a directory that everybody may write to, as /tmp, if it
// has the sticky bit, and makes lock files that everybody may use, as PHP
// does. Every user of the machine can hold, and falsify, every lock.
func AllowWorld() Option { return func(c *config) { c.access = world } }

// AllowNetwork allows a directory on a network file system (NFS, CIFS, FUSE
// and the like). There, whether one machine sees the other's locks depends on
// the servers, and locks may be lost without notice when a connection breaks.
func AllowNetwork() Option { return func(c *config) { c.network = true } }

// NoCreate makes Open fail if the directory does not exist.
func NoCreate() Option { return func(c *config) { c.create = false } }

// MaxOpen sets how many descriptors of free locks are kept open, instead of
// DefaultMaxOpen. A lock that is held needs a descriptor of its own. With 0
// none is kept: each Acquire opens the file, which more than doubles its cost.
func MaxOpen(n int) Option { return func(c *config) { c.maxOpen = max(n, 0) } }

// WithClock sets the clock by which reservations end, instead of
// driver.SystemClock. Cool-downs go by the kernel's clocks, which all
// processes share.
func WithClock(clock driver.Clock) Option { return func(c *config) { c.clock = clock } }

// FromURL opens the store that a URL of the form file:///dir names. The query
// may have the parameters
//
//	create=no       the directory must exist (NoCreate)
//	group=yes       AllowGroup
//	world=yes       AllowWorld
//	nfs=force       AllowNetwork
//	max-open=N      MaxOpen
//
// Anything else is driver.ErrInvalid. opts come after what the URL says. Nothing in Open waits, so
// ctx is only looked at: FromURL fails if it has ended.
func FromURL(ctx context.Context, u *url.URL, opts ...Option) (*Store, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	dir, err := dirOf(u)
	if err != nil {
		return nil, err
	}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return nil, invalid("the query of the URL cannot be read: %v", err)
	}
	var said []Option
	for name, values := range query {
		o, err := parameter(name, values)
		if err != nil {
			return nil, err
		}
		said = append(said, o)
	}
	return Open(dir, append(said, opts...)...)
}

func dirOf(u *url.URL) (string, error) {
	switch {
	case u.Scheme != "file":
		return "", invalid("the scheme of a file store's URL is file, as in file:///var/lib/locks")
	case u.Opaque != "" || u.Path == "":
		return "", invalid("a file store's URL names a directory from the root: file:///var/lib/locks")
	case u.Host != "" && u.Host != "localhost":
		return "", invalid("a file store's URL has no host: write file:/// with three slashes")
	case u.User != nil:
		return "", invalid("a file store's URL has no user")
	case u.Fragment != "":
		return "", invalid("a file store's URL has no fragment; write # as %%23")
	}
	if runtime.GOOS == "windows" {
		return strings.TrimPrefix(u.Path, "/"), nil
	}
	return u.Path, nil
}

func parameter(name string, values []string) (Option, error) {
	if len(values) != 1 {
		return nil, invalid("the parameter %q is given more than once", name)
	}
	switch value := values[0]; name {
	case "nfs":
		if value != "force" {
			return nil, invalid("nfs=%q: the only value is force", value)
		}
		return AllowNetwork(), nil
	case "max-open":
		n, err := strconv.Atoi(value)
		if err != nil || n < 0 {
			return nil, invalid("max-open=%q: it is a number from 0", value)
		}
		return MaxOpen(n), nil
	case "group", "world", "create":
		return switchParameter(name, value)
	}
	return nil, invalid("unknown parameter %q: there are create, group, max-open, nfs and world", name)
}

func switchParameter(name, value string) (Option, error) {
	if value != "yes" && value != "no" {
		return nil, invalid("%s=%q: write yes or no", name, value)
	}
	switch {
	case name == "group" && value == "yes":
		return AllowGroup(), nil
	case name == "world" && value == "yes":
		return AllowWorld(), nil
	case name == "create" && value == "no":
		return NoCreate(), nil
	}
	return func(*config) {}, nil
}

func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{driver.ErrInvalid}, args...)...)
}
