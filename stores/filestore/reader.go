package filestore

import (
	"encoding/binary"
	"math/rand/v2"
)

// Shared holders write themselves into records, which follow the head record in the lock file. A
// process takes a record while it has the record lock (see lockRecord), and empties it when the
// hold ends. Every exclusive grant begins a new epoch. A record that still has the number of an
// earlier epoch counts as free. If there are more shared holders than records, the kernel's list
// still shows the others, but without host and label.
const (
	readersOffset = 4096
	readerSize    = 640
	maxReaders    = 32
	readerFixed   = 16 + 16 + 8*7 + 4
	readerMagic   = "PLS1"
)

type readerRecord struct {
	valid bool
	boot  [16]byte
	id    uint64
	epoch uint64
	owner
}

func (s *readerRecord) encode(b []byte) []byte {
	b = append(b, readerMagic...)
	b = append(b, make([]byte, 12)...)
	b = append(b, s.boot[:]...)
	b = binary.LittleEndian.AppendUint64(b, s.id)
	b = binary.LittleEndian.AppendUint64(b, s.epoch)
	b = s.owner.encode(b)
	seal(b)
	return b
}

func decodeReader(b []byte) (s readerRecord) {
	b = sealed(b, readerMagic, readerFixed)
	if b == nil {
		return s
	}
	d := decoder{b: b[16:]}
	d.bytes(s.boot[:])
	s.id, s.epoch = d.uint(), d.uint()
	s.owner = d.owner()
	s.valid = !d.failed
	return s
}

// readReaders returns the records of the shared holders of this epoch, by number. The result is
// empty if the file has none, and also, together with an error, if it could not be read.
func readReaders(c *conn, epoch uint64) (map[int]readerRecord, error) {
	buf := make([]byte, maxReaders*readerSize)
	n, err := c.pread(buf, readersOffset)
	readers := map[int]readerRecord{}
	for i := 0; i*readerSize < n; i++ {
		if s := decodeReader(buf[i*readerSize : min(n, (i+1)*readerSize)]); s.valid && s.epoch == epoch {
			readers[i] = s
		}
	}
	return readers, err
}

// addReader writes s into a free record and returns its number. If no record is free,
// addReader uses that of a dead process. It returns -1 if there is no dead process either, or if
// the write fails.
func addReader(c *conn, s *readerRecord) int {
	var buf [readerSize]byte
	free := -1
	for i := range maxReaders {
		n, err := c.pread(buf[:], readerOffset(i))
		if err != nil {
			continue // it may name a live reader
		}
		old := decodeReader(buf[:n])
		if !old.valid || old.epoch != s.epoch {
			free = i
			break
		}
		if free < 0 && old.state(old.boot) == processDead {
			free = i
		}
	}
	if free < 0 || c.pwrite(s.encode(buf[:0]), readerOffset(free)) != nil {
		return -1
	}
	return free
}

func readerOffset(i int) int64 { return readersOffset + int64(i)*readerSize }

// clearReader empties a record. If that fails, the record still names a holder that is gone. That
// does no harm: before padlock reports holders, it compares the records with the kernel's list of
// locks.
// A record that is no longer padlock's stays.
func clearReader(c *conn, i int) {
	if i < 0 {
		return
	}
	start := make([]byte, len(readerMagic))
	if n, _ := c.pread(start, readerOffset(i)); string(start[:n]) == readerMagic {
		_ = c.pwrite(make([]byte, 16), readerOffset(i))
	}
}

// newID returns a random number that is not 0.
func newID() uint64 { return rand.Uint64() | 1 }
