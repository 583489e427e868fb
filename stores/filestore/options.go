package filestore

import (
	"time"

	"github.com/padlock-go/padlock/driver"
)

// Option configures Open.
type Option func(*config)

type config struct {
	access  access
	create  bool
	network bool
	clock   driver.Clock

	// Tests replace these.
	maxOpen            int
	wall               func() time.Time
	recordLockPatience time.Duration
	flockPatience      time.Duration // how long flock(2) may take; 0 if it never hangs
	probes             bool          // try a lock to find out whether it is held
}

// access says which other users may use the directory.
type access int

const (
	private access = iota
	group
	world
)

func (a access) perm() uint32 { return [...]uint32{0o600, 0o660, 0o666}[a] }

// maxOpen is how many descriptors of free lock files stay open for the next Acquire. If the process
// may have few descriptors, at most an eighth of them stay open.
const maxOpen = 256

// AllowGroup lets the store use a directory to which a group may write. The store then makes lock
// files that the same group may read and write (mode 0660). Every member of that group can hold
// every lock, and can forge the contents of the lock files. Without it, Open returns
// driver.ErrUnavailable for such a directory.
func AllowGroup() Option { return func(c *config) { c.access = max(c.access, group) } }

// AllowWorld lets the store use a directory to which everybody may write, such as /tmp, if the
// directory has the sticky bit. The store then makes lock files that everybody may read and write
// (mode 0666), as PHP does. Every user of the machine can hold every lock, and can forge the
// contents of the lock files. Without it, Open returns driver.ErrUnavailable for such a directory.
func AllowWorld() Option { return func(c *config) { c.access = world } }

// AllowNetwork lets the store use a directory on a network file system (NFS, CIFS, FUSE and the
// like). On such a file system, the servers decide whether one machine sees the locks of another. A
// broken connection may lose locks without notice. Without it, Open returns driver.ErrUnavailable
// for such a directory. If the file system does not answer flock(2), which on NFS without a lock
// manager is so for ever, a call returns driver.ErrUnavailable after 2 seconds.
func AllowNetwork() Option {
	return func(c *config) { c.network, c.flockPatience = true, flockPatience }
}

// flockPatience is how long a call waits for flock(2) on a network file system. Twice that is less
// than driver.MaxSilence.
const flockPatience = 2 * time.Second

// NoCreate makes Open fail with driver.ErrUnavailable if the directory does not exist. Without it,
// Open makes the directory.
func NoCreate() Option { return func(c *config) { c.create = false } }

// WithClock sets the clock that ends reservations. The default is driver.SystemClock, which nil
// stands for too. Cool-downs always follow the kernel's clocks, which all processes share.
func WithClock(clock driver.Clock) Option { return func(c *config) { c.clock = clock } }
