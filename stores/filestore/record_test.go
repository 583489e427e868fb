package filestore

import (
	"bytes"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/safety"
)

func fullRecord() record {
	return record{
		valid: true, mode: modeExclusive, boot: machine().boot,
		fence: 1<<53 - 2, epoch: 12, cool: moment{1, 2}, intent: 5, intentEnd: moment{6, 7},
		owner: owner{
			proc: 1<<32 - 1, pidns: 9, start: 10, pid: 11, since: 12, plan: 13,
			host: []byte(strings.Repeat("h", driver.MaxHost)), label: []byte(strings.Repeat("\x00", maxLabel)),
		},
		name:  []byte(strings.Repeat("n", driver.MaxName)),
		lease: lease{token: [32]byte{14}},
	}
}

func TestRecordRoundTrip(t *testing.T) {
	want := fullRecord()
	b := want.encode(nil)
	if len(b) != headMax {
		t.Errorf("the longest record has %d bytes, headMax is %d", len(b), headMax)
	}
	var got record
	got.decode(append(b, "what an older, longer record left"...))
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

func TestReaderRoundTrip(t *testing.T) {
	want := readerRecord{valid: true, boot: machine().boot, id: 3, epoch: 4, owner: fullRecord().owner}
	b := want.encode(nil)
	if len(b) > readerSize {
		t.Errorf("the longest record has %d bytes, readerSize is %d", len(b), readerSize)
	}
	if got := decodeReader(b); !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

// A process that could not read the id of this boot cannot tell that the machine has restarted. So
// the lease goes on, measured by the wall clock.
func TestUnknownBootKeepsALease(t *testing.T) {
	r := fullRecord()
	r.boot = [16]byte{}
	r.cool = moment{time.Now().Add(time.Hour).UnixMicro(), 0}
	var got record
	got.decode(r.encode(nil))
	if !got.lease.taken() || got.cool.timeLeft(time.Now()) == 0 {
		safety.TooEarly(t, "the lease is over")
	}
}

// A record that is cut short or has a wrong byte counts as none.
func TestBrokenRecordIsNone(t *testing.T) {
	short := fullRecord()
	short.name, short.host, short.label = []byte("n"), nil, []byte("l")
	b := short.encode(nil)
	var got record
	for n := range len(b) {
		if got.decode(b[:n]); got.valid {
			t.Fatalf("%d of %d bytes make a record", n, len(b))
		}
	}
	for i := range b {
		broken := bytes.Clone(b)
		broken[i] ^= 0x10
		if got.decode(broken); got.valid {
			t.Fatalf("byte %d is wrong and nobody notices", i)
		}
	}
}

func TestRecordOfAnotherBootLosesItsBootClock(t *testing.T) {
	r := fullRecord()
	r.boot[0]++
	var got record
	if got.decode(r.encode(nil)); got.cool != (moment{}) || got.lease.taken() {
		t.Errorf("the cool-down of another boot's lease: %v, lease %v", got.cool, got.lease)
	}
	r.lease = lease{}
	got.decode(r.encode(nil))
	if got.cool != (moment{wall: 1}) || got.intentEnd != (moment{wall: 6}) {
		t.Errorf("moments of another boot: %v %v", got.cool, got.intentEnd)
	}
}

func FuzzRecord(f *testing.F) {
	r := fullRecord()
	f.Add(r.encode(nil))
	f.Add([]byte(magic))
	s := readerRecord{owner: r.owner}
	f.Add(s.encode(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) > 12 {
			seal(b) // otherwise the checksum would reject the change
		}
		var r record
		if r.decode(b); r.valid && r.fence >= driver.MaxFence {
			t.Fatal("a fence that is none")
		}
		decodeReader(b)
	})
}

func TestMoment(t *testing.T) {
	wall := time.Now()
	for _, c := range []struct {
		what string
		m    moment
		want time.Duration
	}{
		{"none", moment{}, 0},
		{"past", moment{wall: wall.Add(-time.Second).UnixMicro()}, 0},
		{"future", moment{wall: wall.Add(time.Hour).UnixMicro()}, time.Hour},
		{"not possible, the clock was set back", moment{wall: wall.Add(driver.MaxTTL + time.Hour).UnixMicro()}, 0},
	} {
		if got := c.m.timeLeft(wall); got < c.want-time.Second || got > c.want {
			t.Errorf("%s: %v left, want %v", c.what, got, c.want)
		}
	}
	if machine().boot == [16]byte{} {
		return // no boot clock on this system
	}
	m := momentIn(time.Minute, wall)
	if left := m.timeLeft(wall.Add(-24 * time.Hour)); left < 59*time.Second || left > time.Minute {
		t.Errorf("after the wall clock was set back by a day, a minute has %v left", left)
	}
	if left := m.timeLeft(wall.Add(24 * time.Hour)); left < 59*time.Second {
		t.Errorf("after the wall clock was set forward by a day, a minute has %v left", left)
	}
	m.boot = 0 // as after a reboot
	if left := m.timeLeft(wall.Add(20 * time.Second)); left < 39*time.Second || left > 40*time.Second {
		t.Errorf("by the wall clock, a minute has %v left after 20 s", left)
	}
}

func TestMint(t *testing.T) {
	wall := time.UnixMicro(1000)
	for _, c := range []struct {
		last, above uint64
		shared      bool
		want        uint64
		stored      bool
	}{
		{0, 0, false, 1000, false},
		{999, 0, false, 1000, false},
		{1000, 0, false, 1001, true},
		{5000, 0, false, 5001, true},
		{0, 2000, false, 2001, true},
		{5000, 2000, false, 5001, true},
		{5000, 0, true, 5000, false},
		{10, 0, true, 10, false},
		{5000, 5000, true, 5001, true},
	} {
		got, stored, err := mint(c.last, c.above, c.shared, wall)
		if got != c.want || stored != c.stored || err != nil {
			t.Errorf("mint(%d, %d, %v) = %d, %v, %v; want %d, %v", c.last, c.above, c.shared, got, stored, err, c.want, c.stored)
		}
	}
	if _, _, err := mint(driver.MaxFence-1, 0, false, wall); !errors.Is(err, driver.ErrFencesUsedUp) {
		t.Errorf("after the last fence: %v", err)
	}
	if before, _, err := mint(0, 0, false, time.UnixMicro(-5)); before != 1 || err != nil {
		t.Errorf("before 1970: %d, %v", before, err)
	}
}
