package filestore

import (
	"cmp"
	"fmt"
	"time"

	"github.com/padlock-go/padlock/driver"
)

// heldError returns the error for a try that was refused. The error names the holders. isFinal is
// false if the kernel's list shows that no process has the lock any more, so that another try may
// succeed.
func (s *Store) heldError(f *file, no *refusal) (err error, isFinal bool) {
	held := &driver.HeldError{Waiters: -1}
	if f.spare == nil {
		return held, true
	}
	if s.guarantees.FIFO {
		held.Waiters = f.spare.countMarks()
	}
	b := buffers.Get().(*buffer)
	defer buffers.Put(b)
	rec := b.read(f.spare)
	isFinal = true
	switch {
	case no.cooling:
		held.Until = s.config.wall().Add(no.left)
		var readers map[int]readerRecord
		if !no.shared { // otherwise they are not in the way
			readers, _ = readReaders(f.spare, rec.epoch) // without them, the holders are unknown
		}
		if held.Holds = rec.keepers(readers, s.config.wall()); len(held.Holds) == 0 { // it has just ended
			held.Holds = []driver.Hold{rec.coolDown(held.Until)}
		}
	case no.intent != 0:
		held.Holds = []driver.Hold{promoting(f.spare, rec, no.intent)}
	default: // the lock was held, or a waiter is about to get it
		held.Holds, isFinal = s.occupants(f.spare, rec)
		for i := 0; i < recordTries && foreigners(held.Holds) > 0; i++ {
			time.Sleep(recordPause)
			rec = b.read(f.spare)
			if holds, certain := s.occupants(f.spare, rec); foreigners(holds) <= foreigners(held.Holds) {
				held.Holds, isFinal = holds, certain
			}
		}
	}
	if rec.valid && string(rec.name) != f.name {
		return fmt.Errorf("%w: the name %q is kept in the same file, because the hashes of both agree; rename one of them", held, rec.name), isFinal
	}
	return held, isFinal
}

// A lock in the kernel's list may have no record in the file. Usually such a lock belongs to a
// program that does not use padlock. But it may also belong to a process that uses padlock: a new
// holder that has not written its record yet, or a waiter that tries the lock for an instant.
//
// So the store reads the list again, up to recordTries times, with a pause before each reading. It
// uses the reading that shows the fewest locks without a record. Those locks count as locks of
// other programs.
const (
	recordTries = 5
	recordPause = 400 * time.Microsecond
)

// foreigners counts the holds that seem to belong to programs other than padlock.
func foreigners(holds []driver.Hold) (n int) {
	for i := range holds {
		if holds[i].Foreign {
			n++
		}
	}
	return n
}

// promoting returns the reader whose intent is in the record.
func promoting(c *conn, rec *record, intent uint64) driver.Hold {
	readers, _ := readReaders(c, rec.epoch) // without them, the reader that is promoted is unknown
	for _, s := range readers {
		if s.id == intent {
			return s.holdOf(true)
		}
	}
	return driver.Hold{Shared: true}
}

// occupants returns the holders of the lock of c. The second result is false if the kernel's list
// shows that nobody has the lock.
func (s *Store) occupants(c *conn, rec *record) (holds []driver.Hold, held bool) {
	readers, readErr := readReaders(c, rec.epoch)
	rec.unread = cmp.Or(rec.unread, readErr)
	locks, complete, err := s.seen.locksOf(s.dir, c)
	if err == nil && len(locks) > 0 {
		return append(s.attribute(c, rec, readers, locks), rec.leaseHolds(readers, s.config.wall())...), true
	}
	if err == nil && complete {
		return nil, false
	}
	return append(claimed(rec, readers, err == nil), rec.leaseHolds(readers, s.config.wall())...), true
}

// claimed returns the holders that the file's record names. The store needs the record if the
// kernel's list of locks shows no holder. Since the record may be outdated, claimed leaves out dead
// processes. If listed is true, the store has read the kernel's list. That list would show a living
// process of this container, so claimed then leaves out living processes, too. It keeps only
// processes about which nothing is known.
//
// If no holder is left, claimed returns one hold without a holder.
func claimed(rec *record, readers map[int]readerRecord, listed bool) (holds []driver.Hold) {
	credible := func(o *owner, boot [16]byte) bool {
		state := o.state(boot)
		return state == processUnknown || state == processAlive && !listed
	}
	if rec.mode == modeExclusive && credible(&rec.owner, rec.boot) {
		holds = append(holds, rec.holdOf(false))
	}
	for i := range maxReaders {
		if s, ok := readers[i]; ok && !s.detached() && rec.mode == modeShared && credible(&s.owner, s.boot) {
			holds = append(holds, s.holdOf(true))
		}
	}
	if len(holds) == 0 {
		return []driver.Hold{{}}
	}
	return holds
}

// attribute finds the holders of the locks that the kernel lists for the file of c. The kernel
// names the process that took a lock. If that process has ended, the processes that inherited its
// descriptor have the lock.
func (s *Store) attribute(c *conn, rec *record, readers map[int]readerRecord, locks []kernelLock) []driver.Hold {
	holds := make([]driver.Hold, 0, len(locks))
	for _, l := range locks {
		h := l.holder(rec, readers)
		if l.pid <= 0 || !l.ended() {
			holds = append(holds, h)
			continue
		}
		h.Host, h.PID = machine().host, 0
		pids := s.seen.descriptorHolders(c)
		for _, pid := range pids {
			h.PID = pid
			holds = append(holds, h)
		}
		if len(pids) == 0 { // the processes belong to another user
			holds = append(holds, h)
		}
	}
	return holds
}

// holder finds out who took the lock l, from the head record and the readers that are recorded.
// When holder uses a reader, it removes the reader from the map. So two locks never get the same
// one.
func (l kernelLock) holder(rec *record, readers map[int]readerRecord) driver.Hold {
	if !l.shared && rec.mode == modeExclusive && rec.owner.tookLock(l) {
		return l.seenFromHere(&rec.owner, rec.holdOf(false))
	}
	for i := range maxReaders {
		if s, ok := readers[i]; ok && l.shared && s.tookLock(l) {
			delete(readers, i)
			return l.seenFromHere(&s.owner, s.holdOf(true))
		}
	}
	if l.pid <= 0 { // the process is outside of this container, so the holder is unknown
		return driver.Hold{Shared: l.shared}
	}
	h := driver.Hold{Shared: l.shared, Foreign: !rec.newer && rec.unread == nil}
	h.Host, h.PID = machine().host, l.pid
	return h
}

// seenFromHere corrects the process number of a holder in another pid namespace, such as a
// container. The record has the number in that namespace. In the namespace of this process, that
// number may belong to another process. So seenFromHere takes the number from the kernel's list.
func (l kernelLock) seenFromHere(o *owner, h driver.Hold) driver.Hold {
	if o.pidns != machine().pidns && l.pid > 0 {
		h.Host, h.PID = machine().host, l.pid
	}
	return h
}

// tookLock reports whether the process that wrote o took the lock l.
func (o *owner) tookLock(l kernelLock) bool {
	switch {
	case o.proc == 0:
		return false
	case o.pidns == machine().pidns:
		return o.proc == uint64(l.pid) || l.pid <= 0
	}
	return l.pid <= 0 || l.numberedAs(o.proc)
}
