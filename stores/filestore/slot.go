package filestore

import (
	"encoding/binary"
	"math/rand/v2"
)

// Shared holders write themselves into slots, which follow the head record in the lock file. A
// process takes a slot while it holds the gate (see enterGate), and empties the slot when the hold
// ends. Every exclusive grant begins a new epoch. A slot that still has the number of an earlier
// epoch counts as free. If there are more shared holders than slots, the kernel's list still shows
// the others, but without host and label.
const (
	slotsOffset = 4096
	slotSize    = 640
	slotCount   = 32
	slotFixed   = 16 + 16 + 8*7 + 4
	slotMagic   = "PLS1"
)

type slot struct {
	valid bool
	boot  [16]byte
	id    uint64
	epoch uint64
	owner
}

func (s *slot) encode(b []byte) []byte {
	b = append(b, slotMagic...)
	b = append(b, make([]byte, 12)...)
	b = append(b, s.boot[:]...)
	b = binary.LittleEndian.AppendUint64(b, s.id)
	b = binary.LittleEndian.AppendUint64(b, s.epoch)
	b = s.owner.encode(b)
	seal(b)
	return b
}

func decodeSlot(b []byte) (s slot) {
	b = sealed(b, slotMagic, slotFixed)
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

// readSlots returns the slots of the shared holders of this epoch, by number. The result is empty
// if the file has no slots.
func readSlots(c *conn, epoch uint64) map[int]slot {
	buf := make([]byte, slotCount*slotSize)
	n, _ := c.pread(buf, slotsOffset)
	slots := map[int]slot{}
	for i := 0; i*slotSize < n; i++ {
		if s := decodeSlot(buf[i*slotSize : min(n, (i+1)*slotSize)]); s.valid && s.epoch == epoch {
			slots[i] = s
		}
	}
	return slots
}

// takeSlot writes s into a free slot and returns the number of the slot. If no slot is free,
// takeSlot uses the slot of a dead process. It returns -1 if there is no dead process either, or if
// the write fails.
func takeSlot(c *conn, s *slot) int {
	var buf [slotSize]byte
	free := -1
	for i := range slotCount {
		n, _ := c.pread(buf[:], slotOffset(i))
		old := decodeSlot(buf[:n])
		if !old.valid || old.epoch != s.epoch {
			free = i
			break
		}
		if free < 0 && old.state(old.boot) == processDead {
			free = i
		}
	}
	if free < 0 || c.pwrite(s.encode(buf[:0]), slotOffset(free)) != nil {
		return -1
	}
	return free
}

func slotOffset(i int) int64 { return slotsOffset + int64(i)*slotSize }

// clearSlot empties a slot. If that fails, the slot still names a holder that is gone. That does no
// harm: before padlock reports holders, it compares the slots with the kernel's list of locks.
func clearSlot(c *conn, i int) {
	if i >= 0 {
		_ = c.pwrite(make([]byte, 16), slotOffset(i))
	}
}

// newID returns a random number that is not 0.
func newID() uint64 { return rand.Uint64() | 1 }
