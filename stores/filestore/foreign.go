package filestore

import (
	"errors"
	"strings"
)

// maxFile is the size of the longest lock file: the head, and the records of all readers.
const maxFile = readersOffset + maxReaders*readerSize

// errNotALock says that a file has contents that padlock did not write. padlock neither changes nor
// locks such a file, because it may be a user's.
var errNotALock = errors.New("its contents are not a lock of padlock, so padlock leaves it alone; move the file away, or rename the lock")

// isOurs reports whether padlock can have written a file that begins with b, or whether the file is
// empty. A crash of the machine may leave zeros in place of a record.
func isOurs(b []byte) bool {
	return strings.HasPrefix(magic, string(b[:min(len(b), len(magic))])) || allZero(b)
}

func allZero(b []byte) bool {
	for _, c := range b {
		if c != 0 {
			return false
		}
	}
	return true
}

// looksForeign reports whether the contents of a file are not padlock's. b is what the file begins
// with. A long file of zeros is not padlock's either.
func looksForeign(c *conn, b []byte) (bool, error) {
	if !isOurs(b) {
		return true, nil
	}
	if len(b) == 0 || b[0] != 0 {
		return false, nil
	}
	n, err := c.pread(make([]byte, 1), maxFile)
	return n > 0, err
}

// hands returns an error if this build must not write into the file that has the record r: it could
// not be read, a newer padlock wrote it, or another program did.
func (r *record) hands(path string) error {
	switch {
	case r.unread != nil:
		return unread(path, r.unread)
	case r.newer:
		return newer(path)
	case r.foreign:
		return unavailable(path, errNotALock)
	}
	return nil
}

var errNotRegular = errors.New("it is not a regular file")
