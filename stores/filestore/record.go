package filestore

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"hash/crc32"
	"sync"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/storekit"
)

// A lock file is empty until padlock takes the lock for the first time. Then it contains, in
// little-endian numbers:
//
//	0      the head record, see record
//	4096   records of 640 bytes, one for each shared holder, see readerRecord
//
// A process writes the head only if it has an exclusive lock, or a shared lock and the record lock
// (see lockRecord). Nothing is synced to the disk. If the record is missing or damaged, padlock
// ignores it (but see looksForeign). Then only three things are lost: the name of the holder, the
// rest of a cool-down, and a detached hold (see lease). A record that the system could not read is
// not ignored: every call that needs it returns driver.ErrUnavailable (see record.hands).
//
// Every format of the head begins with the same ten bytes. So an older build recognises a newer
// head, and does not change it:
//
//	0   "PLK"
//	3   the format, '1' so far
//	4   CRC-32C of all that follows
//	8   length of the whole, at most 4096
//
// A newer build may add bytes at the end of the head without a new format. It needs a new format if
// an older build could damage what it writes into the head or the records of readers.
const (
	headMax   = headFixed + driver.MaxName + driver.MaxHost + maxLabel + leaseSize
	maxLabel  = 256
	headFixed = 16 + 8*14 + 16 + 6 // without a lease, which is optional
	headStart = 10                 // what every format begins with
)

const (
	magic  = "PLK" // the same in every format
	format = '1'   // the newest that this build knows
)

// castagnoli makes the tables at its first call. A program that uses no files does not pay for them.
func castagnoli() *crc32.Table { return crc32.MakeTable(crc32.Castagnoli) }

// mode says how a lock is held: not at all, exclusively or shared.
type mode byte

const (
	modeNone mode = iota
	modeExclusive
	modeShared
)

// owner is one holder as it is written in a record. The bytes of host and label belong to the
// buffer or the string that they came from.
type owner struct {
	// The process that took the lock: its number, its pid namespace (as an inode) and its start
	// time (in ticks).
	proc, pidns, start uint64

	pid         uint64 // the process number that the caller gave in Request.Holder
	since       int64  // µs since 1970
	plan        int64  // ns
	host, label []byte
}

// record is the head of a lock file.
type record struct {
	valid     bool
	foreign   bool  // the record is not valid, because another program has written the file
	newer     bool  // the record is not valid, because its format is newer than this build knows
	unread    error // the record is not valid, because the system could not read the file
	mode      mode
	boot      [16]byte
	fence     uint64 // the highest fence minted
	epoch     uint64 // fence of the last exclusive grant; readers of another epoch are stale
	cool      moment // nobody gets the name before this, but see sharedLeases
	cooling   moment // with leases of detached readers: the end of the cool-down
	intent    uint64 // the random number of the reader that wants to be promoted, or 0
	intentEnd moment
	owner     // the holder of an exclusive or detached hold
	name      []byte
	lease     lease
}

// encode appends the record to b, which must be empty.
func (r *record) encode(b []byte) []byte {
	le := binary.LittleEndian
	b = append(append(b, magic...), format)
	b = append(b, 0, 0, 0, 0, 0, 0, byte(r.mode), 0, 0, 0, 0, 0)
	b = append(b, r.boot[:]...)
	for _, v := range [...]uint64{
		r.fence, r.epoch, uint64(r.cool.wall), uint64(r.cool.boot),
		uint64(r.cooling.wall), uint64(r.cooling.boot), // older builds have the end of a cool-down for writers here, or nothing
		r.intent, uint64(r.intentEnd.wall), uint64(r.intentEnd.boot),
	} {
		b = le.AppendUint64(b, v)
	}
	b = r.owner.encode(b)
	b = appendBytes(b, r.name)
	b = r.lease.encode(b)
	seal(b)
	return b
}

func (o *owner) encode(b []byte) []byte {
	le := binary.LittleEndian
	b = le.AppendUint64(b, o.proc|o.pid<<32)
	b = le.AppendUint64(b, o.pidns)
	b = le.AppendUint64(b, o.start)
	b = le.AppendUint64(b, uint64(o.since))
	b = le.AppendUint64(b, uint64(o.plan))
	b = appendBytes(b, o.host)
	return appendBytes(b, o.label)
}

// seal fills in the length and the checksum.
func seal(b []byte) {
	binary.LittleEndian.PutUint16(b[8:], uint16(len(b)))
	binary.LittleEndian.PutUint32(b[4:], crc32.Checksum(b[8:], castagnoli()))
}

// sealed returns the bytes of the record at the start of b, or nil if there is no complete record.
func sealed(b []byte, magic string, fixed int) []byte {
	if len(b) < fixed || string(b[:len(magic)]) != magic {
		return nil
	}
	n := int(binary.LittleEndian.Uint16(b[8:]))
	if n < fixed || n > len(b) || binary.LittleEndian.Uint32(b[4:]) != crc32.Checksum(b[8:n], castagnoli()) {
		return nil
	}
	return b[:n]
}

// decode reads a head record. If b holds no record that this build can read, r.valid is false.
//
// Each moment in a record has a boot time and a wall time. A boot time is meaningless after the
// machine was restarted. Then decode sets the boot times to 0, so that the wall times count.
func (r *record) decode(b []byte) {
	*r = record{}
	b = sealed(b, magic, headStart)
	if b == nil {
		return
	}
	if r.newer = b[3] > format; b[3] != format || len(b) < headFixed {
		return
	}
	d := decoder{b: b[16:]}
	r.mode = mode(b[10])
	d.bytes(r.boot[:])
	r.fence, r.epoch = d.uint(), d.uint()
	r.cool, r.cooling = d.moment(), d.moment()
	r.intent, r.intentEnd = d.uint(), d.moment()
	r.owner = d.owner()
	r.name = d.text()
	r.lease.decode(&d)
	r.valid = !d.failed && r.fence < driver.MaxFence && r.mode <= modeShared
	if !r.valid {
		*r = record{}
		return
	}
	if unknown := [16]byte{}; r.boot != machine().boot {
		r.cool.boot, r.cooling.boot, r.intentEnd.boot = 0, 0, 0
		if r.boot != unknown && machine().boot != unknown {
			r.endLease() // a lease ends when the machine restarts
		}
	}
}

// setExclusive makes r the head record of the exclusive hold h.
func (r *record) setExclusive(f *file, h *hold) {
	*r = record{
		mode: modeExclusive, fence: h.fence, epoch: h.fence,
		owner: ownerOf(&h.holder, h.since), name: bytesOf(f.name),
	}
}

// setShared makes r the head record of a file that a reader with this fence has locked. The argument
// old is the previous record. If old is not valid, r gets a new epoch, so that all readers in the
// file become stale.
func (r *record) setShared(f *file, fence uint64, old *record, wall time.Time) {
	*r = *old
	if !old.valid {
		r.epoch = fence
	}
	r.mode, r.owner, r.name = modeShared, owner{}, bytesOf(f.name)
	r.fence = max(fence, old.fence)
	if !old.hasSharedLeases() || old.cool.timeLeft(wall) == 0 {
		r.lease, r.cooling = lease{}, moment{}
	}
	if old.intentEnd.timeLeft(wall) == 0 {
		r.intent, r.intentEnd = 0, moment{}
	}
}

// setDetached makes r the head record of a detached hold that lasts for ttl.
func (r *record) setDetached(f *file, q *driver.Request, fence uint64, ttl time.Duration, wall time.Time) {
	*r = record{
		fence: fence, epoch: fence, cool: momentIn(ttl, wall), owner: ownerOf(&q.Holder, wall.UnixMicro()), name: bytesOf(f.name),
		lease: lease{sha256.Sum256([]byte(q.Token.Text()))},
	}
}

// ownerOf describes a holder in this process.
func ownerOf(h *driver.Holder, since int64) owner {
	m := machine()
	o := owner{
		proc: uint64(m.pid), pidns: m.pidns, start: m.start,
		pid: uint64(uint32(h.PID)), since: since, plan: int64(h.Plan),
		host: bytesOf(h.Host), label: bytesOf(h.Label),
	}
	if h.Host == "" && h.PID == 0 {
		o.host, o.pid = bytesOf(m.host), o.proc
	}
	return o
}

// decoder reads values from the front of b.
type decoder struct {
	b      []byte
	failed bool
}

func (d *decoder) take(n int) []byte {
	if n > len(d.b) {
		d.failed = true
		return make([]byte, n)
	}
	out := d.b[:n]
	d.b = d.b[n:]
	return out
}

func (d *decoder) bytes(out []byte) { copy(out, d.take(len(out))) }

func (d *decoder) uint() uint64 { return binary.LittleEndian.Uint64(d.take(8)) }

func (d *decoder) text() []byte { return d.take(int(binary.LittleEndian.Uint16(d.take(2)))) }

func (d *decoder) moment() moment { return moment{int64(d.uint()), int64(d.uint())} }

func (d *decoder) owner() (o owner) {
	pids := d.uint()
	o.proc, o.pid = pids&0xffffffff, pids>>32
	o.pidns, o.start = d.uint(), d.uint()
	o.since, o.plan = int64(d.uint()), int64(d.uint())
	o.host, o.label = d.text(), d.text()
	return o
}

func appendBytes(b, text []byte) []byte {
	b = binary.LittleEndian.AppendUint16(b, uint16(len(text)))
	return append(b, text...)
}

// holdOf returns the holder as Inspect reports it.
func (o *owner) holdOf(shared bool) driver.Hold {
	h := driver.Holder{Host: string(o.host), Label: string(o.label), PID: int(o.pid), Plan: time.Duration(o.plan)}
	return storekit.HoldOf(h, shared, time.UnixMicro(o.since))
}

// coolDown returns the cool-down that the last holder left, as Inspect reports it.
func (r *record) coolDown(until time.Time) driver.Hold {
	h := r.holdOf(false)
	return driver.Hold{Cooling: true, Holder: h.Holder, Until: until, PlannedEnd: until}
}

// lease describes a detached hold that is exclusive; sharedLeases has the shared ones. During a detached hold, no process has the kernel's lock.
// Instead, the cool-down of the record (record.cool) keeps the name taken until the lease ends.
// Older builds do not know leases, but they respect the cool-down. The owner of the record is the
// holder.
//
// A lease is in one of three states:
//
//	state    the record has
//	none     no lease
//	live     a lease, and record.cool is in the future
//	ended    a lease, and record.cool has passed
//
// The transitions are:
//
//	state        event                                    next state
//	none, ended  Acquire of a detached hold               live
//	live         Extend, or Acquire with the same token   live, with a later end
//	live         Acquire with Replaces                    live, with a new token
//	live         Release or Break                         none
//	live         record.cool passes                       ended
//	ended        Acquire of another kind of hold          none
//	ended        Release, which returns OutcomeGone       none
//	live, ended  the machine restarts                     none
//
// A release may leave a cool-down.
//
// Extend of an ended lease returns ErrLost. ErrExpired would promise that nobody has had the lock
// since the end of the lease. But a program that does not know leases may have had the lock.
//
// A process that changes the record takes the kernel's exclusive lock for an instant. It writes the
// whole record with one system call. So a process that is killed leaves no damaged record, which
// would end the lease.
type lease struct {
	token [sha256.Size]byte // the hash of the token; zero if there is no lease
}

// sharedLeases stands in place of a token while detached readers have leases; see keepFor.
var sharedLeases = [sha256.Size]byte(bytes.Repeat([]byte{0xff}, sha256.Size))

func (r *record) hasSharedLeases() bool { return r.lease.token == sharedLeases }

// coolEnd returns the end of the cool-down, without the leases of detached readers.
func (r *record) coolEnd() moment {
	if r.hasSharedLeases() {
		return r.cooling
	}
	return r.cool
}

// leaseSize is the length of a lease in a record: its token, and a moment that is zero. Older builds
// have a time there for which the name stays taken after a Release.
const leaseSize = sha256.Size + 16

func (l *lease) taken() bool { return l.token != [sha256.Size]byte{} }

func (l *lease) encode(b []byte) []byte {
	if !l.taken() {
		return b
	}
	b = append(b, l.token[:]...)
	return append(b, make([]byte, leaseSize-sha256.Size)...)
}

func (l *lease) decode(d *decoder) {
	if len(d.b) >= leaseSize {
		d.bytes(l.token[:])
	}
}

// endLease ends a lease that was written before the machine restarted. It removes the lease, so
// that Extend does not find it.
func (r *record) endLease() {
	if r.lease.taken() {
		r.cool, r.cooling, r.lease = r.cooling, moment{}, lease{}
	}
}

// leaseHold returns the detached hold that the lease stands for, as Inspect reports it.
func (r *record) leaseHold(until time.Time) driver.Hold {
	h := r.holdOf(false)
	h.Until = until
	return h
}

// buffer has room for the head record that was read from a file (rec), and for the head record that
// will be written to the file (next).
type buffer struct {
	in        [headMax]byte
	out       [headMax]byte
	rec, next record
	got       int // how many bytes of in were read
}

var buffers = sync.Pool{New: func() any { return new(buffer) }}

// read reads the head record of a file. The record is not valid if the file has none, or if the
// system reports an error (see record.unread). The record and its bytes belong to b.
func (b *buffer) read(c *conn) *record {
	var err error
	if b.got, err = c.pread(b.in[:], 0); err != nil {
		b.got, b.rec = 0, record{unread: err}
		return &b.rec
	}
	b.rec.decode(b.in[:b.got])
	if !b.rec.valid && !b.rec.newer {
		b.rec.foreign, b.rec.unread = looksForeign(c, b.in[:b.got])
	}
	return &b.rec
}

// write writes b.next with one system call. So even if the process is killed, the file has either
// the old record or the new one.
func (b *buffer) write(c *conn) error {
	b.next.boot = machine().boot
	text := b.next.encode(b.out[:0])
	return c.pwrite(text, 0)
}
