package filestore

import (
	"crypto/sha256"
	"encoding/binary"
	"math/rand/v2"
	"time"
)

// Shared holders write themselves into records, which follow the head record in the lock file. A
// process takes a record while it has the record lock (see lockRecord), and empties it when the
// hold ends. Every exclusive grant begins a new epoch. A record that still has the number of an
// earlier epoch counts as free. If there are more shared holders than records, the kernel's list
// still shows the others, but without host and label.
//
// A detached reader, which has a lease, always has a record; see keepers.go.
const (
	readersOffset = 4096
	readerSize    = 640
	maxReaders    = 32
	readerFixed   = 16 + 16 + 8*7 + 4
	readerMagic   = "PLS1"

	// The record of a detached reader ends with its lease. Older builds ignore these bytes. With the
	// longest host and label, the record has 636 bytes.
	readerToken = sha256.Size / 2
	readerLease = readerToken + 16
)

type readerRecord struct {
	valid bool
	boot  [16]byte
	id    uint64 // a random number; the fence of a detached reader
	epoch uint64
	owner                   // a detached reader has no process in it
	token [readerToken]byte // the begin of the hash of a detached reader's token; otherwise zero
	until moment            // the end of its lease
}

func (s *readerRecord) encode(b []byte) []byte {
	b = append(b, readerMagic...)
	b = append(b, make([]byte, 12)...)
	b = append(b, s.boot[:]...)
	b = binary.LittleEndian.AppendUint64(b, s.id)
	b = binary.LittleEndian.AppendUint64(b, s.epoch)
	b = s.owner.encode(b)
	if s.detached() {
		b = append(b, s.token[:]...)
		b = binary.LittleEndian.AppendUint64(b, uint64(s.until.wall))
		b = binary.LittleEndian.AppendUint64(b, uint64(s.until.boot))
	}
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
	if len(d.b) >= readerLease {
		d.bytes(s.token[:])
		s.until = d.moment()
	}
	s.valid = !d.failed
	if here, unknown := machine().boot, ([16]byte{}); s.boot != here {
		s.until.boot = 0
		if s.boot != unknown && here != unknown {
			s.until = moment{} // a lease ends when the machine restarts
		}
	}
	return s
}

func (s *readerRecord) detached() bool { return s.token != [readerToken]byte{} }

// ended reports whether s is the record of a detached reader whose lease has ended.
func (s *readerRecord) ended(wall time.Time) bool {
	return s.detached() && s.until.timeLeft(wall) == 0
}

// readReaders returns the records of the shared holders of this epoch, by number. The result is
// empty if the file has none, and also, together with an error, if it could not be read.
func readReaders(c *conn, epoch uint64) (map[int]readerRecord, error) {
	readers, _, err := readAllReaders(c)
	for i, s := range readers {
		if s.epoch != epoch {
			delete(readers, i)
		}
	}
	return readers, err
}

// readAllReaders returns the records of all epochs. If one of them is damaged, another process may be
// writing it.
func readAllReaders(c *conn) (readers map[int]readerRecord, damaged bool, err error) {
	buf := make([]byte, maxReaders*readerSize)
	n, err := c.pread(buf, readersOffset)
	readers = map[int]readerRecord{}
	for i := 0; i*readerSize < n; i++ {
		b := buf[i*readerSize : min(n, (i+1)*readerSize)]
		if s := decodeReader(b); s.valid {
			readers[i] = s
		} else {
			damaged = damaged || !allZero(b[:min(len(b), len(readerMagic))])
		}
	}
	return readers, damaged, err
}

// freeReader returns the number of a free record. If no record is free, it returns one whose
// process is dead or whose lease has ended, or -1 if there is none either.
func freeReader(c *conn, epoch uint64, wall time.Time) int {
	var buf [readerSize]byte
	free := -1
	for i := range maxReaders {
		n, err := c.pread(buf[:], readerOffset(i))
		if err != nil {
			continue // it may name a live reader
		}
		old := decodeReader(buf[:n])
		if !old.valid || old.epoch != epoch {
			return i
		}
		if free < 0 && (old.ended(wall) || old.state(old.boot) == processDead) {
			free = i
		}
	}
	return free
}

func readerOffset(i int) int64 { return readersOffset + int64(i)*readerSize }

// clearReader empties a record. If that fails, the record still names a holder that is gone. That
// does no harm: before padlock reports holders, it compares the records with the kernel's list of
// locks.
// A record that is no longer padlock's stays, and so does that of another reader.
func (h *hold) clearReader() {
	if h.readerIndex < 0 {
		return
	}
	var buf [readerSize]byte
	n, _ := h.conn.pread(buf[:], readerOffset(h.readerIndex))
	if s := decodeReader(buf[:n]); s.valid && s.id == h.readerID {
		_ = emptyReader(h.conn, h.readerIndex)
	}
}

func emptyReader(c *conn, i int) error { return c.pwrite(make([]byte, 16), readerOffset(i)) }

// newID returns a random number that is not 0.
func newID() uint64 { return rand.Uint64() | 1 }
