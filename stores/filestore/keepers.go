package filestore

import (
	"crypto/sha256"
	"time"

	"github.com/padlock-go/padlock/driver"
)

// A detached reader is a readerRecord with the hash of its token and the end of its lease. While one
// of these leases is live, the head of the file keeps the name for all of them:
//
//	record.cool     the end of the last lease, or of a cool-down if that is later
//	record.cooling  the end of the cool-down alone
//	record.lease    sharedLeases, in place of the hash of a token
//
// So a caller of the exclusive lock is refused until the last lease has ended, and an older padlock
// takes all of it for one detached hold. A shared caller is refused only until record.cooling.
//
// The process that changes a lease has the record lock and, for an instant, the kernel's shared lock.
// It writes twice, in an order that never frees a name too early. If the process is killed between
// the two, or the second write fails, the state is this:
//
//	change                   first write         second write        in between
//	Acquire, Extend          head, later end     record              the name is taken until the lease would have ended
//	RaiseFence               head, fence         record              the next fence is greater
//	Release                  record, emptied     head, earlier end   the name is taken until the lease would have ended
//	Release with cool-down   head, cool-down     as Release          the lease and the cool-down go on
//
// The next change of any of the leases sets the head right.
//
// A lease is live while its record has the head's epoch, its end is in the future, and the head keeps
// the name until then.

// coolFor makes the name cool down until end at least.
func (r *record) coolFor(end moment, wall time.Time) {
	r.cool = laterOf(r.cool, end, wall)
	if r.hasSharedLeases() {
		r.cooling = laterOf(r.cooling, end, wall)
	}
}

// keepFor makes the head keep the name for the leases of these readers, and for the cool-down.
func (r *record) keepFor(readers map[int]readerRecord, wall time.Time) {
	own, last := r.coolEnd(), moment{}
	for _, s := range readers {
		last = laterOf(last, s.until, wall)
	}
	r.cool, r.cooling, r.lease = own, moment{}, lease{}
	if last.timeLeft(wall) > 0 {
		r.cool, r.cooling, r.lease.token = laterOf(own, last, wall), own, sharedLeases
	}
}

// leaseHolds returns the detached readers, as Inspect reports them.
func (r *record) leaseHolds(readers map[int]readerRecord, wall time.Time) (holds []driver.Hold) {
	for i := range maxReaders {
		if s, ok := readers[i]; ok && r.keeps(&s, wall) > 0 {
			h := s.holdOf(true)
			h.Until = wall.Add(s.until.timeLeft(wall))
			holds = append(holds, h)
		}
	}
	return holds
}

// keepers returns the detached holds and the cool-down that keep the name, as Inspect reports them.
func (r *record) keepers(readers map[int]readerRecord, wall time.Time) []driver.Hold {
	left := r.cool.timeLeft(wall)
	if left > 0 && r.lease.taken() && !r.hasSharedLeases() {
		return []driver.Hold{r.leaseHold(wall.Add(left))}
	}
	holds := r.leaseHolds(readers, wall)
	if own := r.coolEnd().timeLeft(wall); own > 0 {
		holds = append(holds, r.coolDown(wall.Add(own)))
	} else if left > 0 && len(holds) == 0 { // its process was killed between the two writes
		holds = append(holds, driver.Hold{Shared: true, Until: wall.Add(left)})
	}
	return holds
}

// keeps returns how much time the lease of s has left, or 0 if it is not live.
func (r *record) keeps(s *readerRecord, wall time.Time) time.Duration {
	if !s.detached() || !r.valid || r.mode != modeShared || s.epoch != r.epoch || r.cool.before(s.until) {
		return 0
	}
	return s.until.timeLeft(wall)
}

func readerHash(token string) (h [readerToken]byte) {
	whole := sha256.Sum256([]byte(token))
	copy(h[:], whole[:])
	return h
}

// findLease returns the number of the live lease of token, or -1.
func (r *record) findLease(readers map[int]readerRecord, token string, wall time.Time) (at int, left time.Duration) {
	hash := readerHash(token)
	for i, s := range readers {
		if s.token == hash {
			if left := r.keeps(&s, wall); left > 0 {
				return i, left
			}
		}
	}
	return -1, 0
}
