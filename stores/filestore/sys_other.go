//go:build !(linux || darwin || freebsd || netbsd || openbsd || dragonfly || windows)

package filestore

import (
	"errors"
	"math"
	"os"
	"time"
)

// conn has no use here, because this system has no lock files.
type conn struct {
	dev, ino uint64
	stuck    bool
	patience time.Duration
	unusable error
}

// descriptorLimit returns how many descriptors this process may have.
func descriptorLimit() int { return math.MaxInt32 }

func openConn(string, access) (*conn, error) { return nil, errors.ErrUnsupported }

func openForReading(string, access) (*conn, error) { return nil, errors.ErrUnsupported }

func (*conn) tryLock(bool) error { return errors.ErrUnsupported }

func (*conn) unlock() {}

func (*conn) current() (bool, error) { return false, errors.ErrUnsupported }

func (*conn) isLinked() bool { return false }

func (*conn) pread([]byte, int64) (int, error) { return 0, errors.ErrUnsupported }

func (*conn) pwrite([]byte, int64) error { return errors.ErrUnsupported }

func (*conn) close() {}

func (*conn) dup(string) (*os.File, error) { return nil, errors.ErrUnsupported }
