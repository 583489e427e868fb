//go:build linux

package filestore

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/safety"
)

func detachedReader(name, token string) driver.Request {
	r := shared(name, token)
	r.Detached = true
	return r
}

// rewrite changes the head and the readers of a lock file, as another process may do.
func rewrite(t testing.TB, s *Store, name string, edit func(head *record, readers map[int]readerRecord)) {
	t.Helper()
	c, err := s.openPath(pathOf(s, name))
	if err != nil {
		t.Fatal(err)
	}
	defer c.close()
	b := new(buffer)
	b.next = *b.read(c)
	readers, err := readReaders(c, b.rec.epoch)
	if err != nil {
		t.Fatal(err)
	}
	edit(&b.next, readers)
	if err := b.write(c); err != nil {
		t.Fatal(err)
	}
	for i := range maxReaders {
		s, ok := readers[i]
		if ok {
			err = c.pwrite(s.encode(nil), readerOffset(i))
		} else {
			err = emptyReader(c, i)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// outlast makes the leases and the cool-down of a lock file end now.
func outlast(t testing.TB, s *Store, name string) {
	t.Helper()
	rewrite(t, s, name, func(head *record, readers map[int]readerRecord) {
		past := momentIn(-time.Millisecond, time.Now())
		head.cool = past
		for i, l := range readers {
			l.until = past
			readers[i] = l
		}
	})
}

// labelsOf returns the labels of holds that are shared and have a lease, and those of all others.
func labelsOf(holds []driver.Hold) (leases, others string) {
	for _, h := range holds {
		if h.Shared && time.Until(h.Until) > 30*time.Second {
			leases += h.Label
		} else {
			others += h.Label
		}
	}
	return leases, others
}

// Detached readers and those of a process have the name together, and keep a writer out until the
// last of them has ended.
func TestDetachedReaders(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir())
	other := open(t, s.Dir())
	writer := take(t, s, request("job", "w"))
	release(t, s, "job", "w", driver.OutcomeReleased)
	a := take(t, s, detachedReader("job", "a"))
	b := take(t, other, detachedReader("job", "b"))
	p := take(t, other, shared("job", "p"))
	if safety.Rises(t, a.Fence, writer.Fence); a.Fence != b.Fence || a.Fence != p.Fence || a.TTL != time.Minute {
		t.Errorf("granted %+v, %+v and %+v", a, b, p)
	}
	for _, holds := range [][]driver.Hold{refused(t, s, request("job", "w")).Holds, inspect(t, s, "job").Holds} {
		if leases, others := labelsOf(holds); leases != "ab" || others != "p" {
			t.Errorf("held by %+v", holds)
		}
	}
	release(t, other, "job", "p", driver.OutcomeReleased)
	release(t, other, "job", "a", driver.OutcomeReleased)
	release(t, other, "job", "a", driver.OutcomeGone)
	lost(t, s, "job", "a")
	no := refused(t, other, request("job", "w"))
	if leases, others := labelsOf(no.Holds); leases != "b" || others != "" || time.Until(no.Until) < 30*time.Second {
		t.Errorf("held by %+v", no)
	}
	if g, err := s.Extend(patience(t), "job", "b", time.Hour); err != nil || g.Fence != b.Fence || g.TTL != time.Hour || !g.Shared {
		t.Errorf("Extend: %+v, %v", g, err)
	}
	if states, err := other.List(patience(t), ""); err != nil || len(states) != 1 || time.Until(states[0].Holds[0].Until) < 50*time.Minute {
		t.Errorf("List: %+v, %v", states, err)
	}
	outlast(t, s, "job")
	lost(t, s, "job", "b")
	safety.Rises(t, take(t, other, request("job", "w")).Fence, b.Fence)
	release(t, s, "job", "b", driver.OutcomeGone)
	held(t, other, "job", "w")
}

// A token that has a lease keeps its mode and its fence, and a lease can be replaced.
func TestDetachedReaderAgain(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir())
	first := take(t, s, detachedReader("job", "a"))
	again := detachedReader("job", "a")
	for _, again.Shared = range []bool{true, false} {
		again.TTL = time.Second // a lease does not become shorter
		if g := take(t, s, again); g.Fence != first.Fence || !g.Shared || g.TTL < 50*time.Second {
			t.Errorf("again: %+v", g)
		}
	}
	again.Token, again.Replaces = driver.TokenOf("b"), driver.TokenOf("a")
	next := take(t, s, again)
	if safety.Rises(t, next.Fence, first.Fence); !next.Shared {
		t.Errorf("replaced by %+v", next)
	}
	lost(t, s, "job", "a")
	if _, err := s.Acquire(patience(t), again); err != nil {
		t.Errorf("a repeat: %v", err)
	}
	release(t, s, "job", "b", driver.OutcomeReleased)
	if _, err := s.Acquire(patience(t), again); !errors.Is(err, driver.ErrLost) {
		t.Errorf("neither is live: %v", err)
	}
	writer := request("job", "w")
	writer.Detached = true
	g := take(t, s, writer)
	writer.Shared = true
	if again := take(t, s, writer); again.Fence != g.Fence || again.Shared {
		t.Errorf("an exclusive lease, asked for as shared: %+v", again)
	}
}

// A cool-down ends at its own time, whatever the leases of the readers.
func TestDetachedReadersAndCoolDowns(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir())
	take(t, s, shared("job", "p"))
	take(t, s, detachedReader("job", "a"))
	take(t, s, detachedReader("job", "b"))
	if _, err := s.Extend(patience(t), "job", "a", 12*time.Hour); err != nil {
		t.Fatal(err)
	}
	releaseFor(t, s, "p", time.Hour)
	cools(t, s, detachedReader("job", "c"), time.Hour)
	held(t, s, "job", "a")
	releaseFor(t, s, "b", 2*time.Hour)
	cools(t, s, shared("job", "c"), 2*time.Hour)
	release(t, s, "job", "a", driver.OutcomeReleased)
	cools(t, s, request("job", "w"), 2*time.Hour)
}

// A reader of a process cannot be promoted beside a detached one, and keeps new ones out while it
// waits.
func TestPromotionBesideDetachedReaders(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir())
	other := open(t, s.Dir())
	take(t, s, shared("job", "p"))
	take(t, other, detachedReader("job", "a"))
	_, err := promote(s, "job", "p")
	var no *driver.HeldError
	if !errors.As(err, &no) || len(no.Holds) != 1 || no.Holds[0].Label != "a" || !no.Holds[0].Shared || no.Cooling() {
		t.Fatalf("got %v", err)
	}
	held(t, s, "job", "p")
	refused(t, other, detachedReader("job", "b"))
	f, err := s.enter("job")
	if err != nil {
		t.Fatal(err)
	}
	r := request("job", "p")
	if err := s.refresh(f); err != nil {
		t.Fatal(err)
	}
	if err := s.checkFree(&waiter{f: f, r: &r, watches: true}); err == nil {
		t.Error("a reader that waits to be promoted does not wait for the lease")
	}
	s.endCall(f)
	held(t, other, "job", "a")
	release(t, other, "job", "a", driver.OutcomeReleased)
	if _, err := promote(s, "job", "p"); err != nil {
		t.Error(err)
	}
}

// Every detached reader has a record. When all records have leases, another reader of a process gets
// in without a record, and another detached one does not.
func TestDetachedReadersNeedRecords(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir())
	c := start(t, "read", s.Dir(), nil)
	c.expect("fence")
	c.kill() // its record is that of a dead process
	for i := range maxReaders {
		take(t, s, detachedReader("job", fmt.Sprint(i)))
	}
	take(t, s, shared("job", "p"))
	_, err := s.Acquire(patience(t), detachedReader("job", "more"))
	wantErr(t, err, driver.ErrUnavailable, "32 shared holders", "try again")
	for i := range maxReaders {
		held(t, s, "job", fmt.Sprint(i))
	}
	release(t, s, "job", "p", driver.OutcomeReleased)
	rewrite(t, s, "job", func(_ *record, readers map[int]readerRecord) {
		l := readers[7]
		l.until = momentIn(-time.Millisecond, time.Now())
		readers[7] = l
	})
	take(t, s, detachedReader("job", "more"))
}

// The process of a detached reader is killed between its two writes. The name stays taken, and the
// next change of a lease sets the head right.
func TestDetachedReaderKilledBetweenWrites(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir())
	take(t, s, detachedReader("job", "killed"))
	rewrite(t, s, "job", func(_ *record, readers map[int]readerRecord) { clear(readers) })
	for _, holds := range [][]driver.Hold{refused(t, s, request("job", "w")).Holds, inspect(t, s, "job").Holds} {
		if len(holds) != 1 || !holds[0].Shared || holds[0].Label != "" || time.Until(holds[0].Until) < 30*time.Second {
			t.Errorf("held by %+v", holds)
		}
	}
	take(t, s, detachedReader("job", "a"))
	rewrite(t, s, "job", func(head *record, _ map[int]readerRecord) { head.cool = momentIn(time.Hour, time.Now()) })
	held(t, s, "job", "a")
	release(t, s, "job", "a", driver.OutcomeReleased)
	take(t, s, request("job", "w"))
}

// A lease that the head does not keep the name for is lost, and so is one before a restart.
func TestDetachedReaderWithoutTheHead(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir())
	take(t, s, detachedReader("job", "a"))
	rewrite(t, s, "job", func(head *record, _ map[int]readerRecord) { head.cool = momentIn(time.Second, time.Now()) })
	lost(t, s, "job", "a")
	l := readerRecord{boot: [16]byte{1}, id: 1, epoch: 1, token: readerHash("a"), until: momentIn(time.Hour, time.Now())}
	if got := decodeReader(l.encode(nil)); !got.valid || !got.ended(time.Now()) {
		t.Errorf("after a restart: %+v", got)
	}
	r := record{boot: [16]byte{1}, mode: modeShared, fence: 1, cooling: moment{wall: 1}, cool: moment{wall: 2}, lease: lease{sharedLeases}}
	var got record
	if got.decode(r.encode(nil)); got.cool != (moment{wall: 1}) || got.lease.taken() {
		t.Errorf("after a restart: %+v", got)
	}
}

// A padlock that knows no detached readers changes the head while it has the shared lock.
func TestDetachedReaderBesideAnOlderPadlock(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir())
	take(t, s, detachedReader("job", "a"))
	take(t, s, detachedReader("job", "b"))
	rewrite(t, s, "job", func(head *record, _ map[int]readerRecord) { head.lease, head.cooling = lease{}, moment{} })
	refused(t, s, request("job", "w"))
	refused(t, s, detachedReader("job", "c")) // it looks like a cool-down
	if holds := inspect(t, s, "job").Holds; len(holds) != 3 || holds[0].Label != "a" || !holds[2].Cooling {
		t.Errorf("held by %+v", holds)
	}
	if _, err := s.Extend(patience(t), "job", "a", time.Hour); err != nil {
		t.Error(err)
	}
	release(t, s, "job", "a", driver.OutcomeReleased)
	held(t, s, "job", "b")
	if no := refused(t, s, request("job", "w")); time.Until(no.Until) > time.Minute {
		t.Errorf("kept for the lease that was released: %+v", no)
	}
}

// A reader of a process that lost its lock leaves the record to the lease that is there now.
func TestLostReaderLeavesTheRecordOfALease(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir())
	take(t, s, shared("job", "p"))
	f, err := s.enter("job")
	if err != nil {
		t.Fatal(err)
	}
	h := f.find("p")
	s.endCall(f)
	rewrite(t, s, "job", func(_ *record, readers map[int]readerRecord) { clear(readers) })
	take(t, s, detachedReader("job", "a"))
	if h.readerIndex != 0 {
		t.Fatalf("its record is %d", h.readerIndex)
	}
	release(t, s, "job", "p", driver.OutcomeReleased)
	held(t, s, "job", "a")
}

func TestRaiseFenceOfALease(t *testing.T) {
	t.Parallel()
	for _, mode := range []bool{true, false} {
		s := open(t, t.TempDir())
		r := detachedReader("job", "a")
		r.Shared = mode
		g := take(t, s, r)
		for _, fence := range []uint64{g.Fence + 1000, g.Fence + 10} {
			if err := s.RaiseFence(patience(t), "job", "a", fence); err != nil {
				t.Fatal(err)
			}
		}
		if got := held(t, s, "job", "a").Fence; got != g.Fence+1000 {
			t.Errorf("raised by 1000: %d from %d", got, g.Fence)
		}
		if got := inspect(t, s, "job").Fence; got != g.Fence+1000 {
			t.Errorf("the fence of the name is %d", got)
		}
		outlast(t, s, "job")
		if err := s.RaiseFence(patience(t), "job", "a", g.Fence+2000); !errors.Is(err, driver.ErrLost) {
			t.Errorf("after its lease: %v", err)
		}
	}
}

// Break ends all detached readers.
func TestBreakDetachedReaders(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir())
	take(t, s, detachedReader("job", "a"))
	g := take(t, s, detachedReader("job", "b"))
	if _, err := s.Break(patience(t), "job", g.Fence); err != nil {
		t.Fatal(err)
	}
	lost(t, s, "job", "a")
	safety.Rises(t, take(t, s, detachedReader("job", "c")).Fence, g.Fence)
	lost(t, s, "job", "b")
}

// A process gets a lease by a reservation and is killed. Others verify and release the lease.
func TestDetachedReaderOutlivesItsProcess(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir())
	take(t, s, shared("job", "p"))
	c := start(t, "reserve and read", s.Dir(), nil)
	fence := fenceOf(t, c.expect("fence"))
	c.kill()
	release(t, s, "job", "p", driver.OutcomeReleased)
	if leases, _ := labelsOf(refused(t, s, request("job", "w")).Holds); leases != "child" {
		t.Errorf("held by %q", leases)
	}
	if g := held(t, s, "job", "child"); g.Fence != fence {
		t.Errorf("granted with fence %d, now %+v", fence, g)
	}
	if holds := inspect(t, s, "job").Holds; len(holds) != 1 {
		t.Errorf("the reservation is still there: %+v", holds)
	}
	for i := range maxReaders - 1 {
		take(t, s, detachedReader("job", fmt.Sprint(i)))
	}
	take(t, s, shared("job", "p")) // which finds no record
	release(t, s, "job", "child", driver.OutcomeReleased)
}

// A lease that is extended all the time is live whenever another process looks.
func TestDetachedReaderExtendedWhileVerified(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir())
	other := open(t, s.Dir())
	take(t, s, detachedReader("job", "a"))
	var all sync.WaitGroup
	defer all.Wait()
	all.Go(func() {
		for i := range 3000 {
			if _, err := s.Extend(patience(t), "job", "a", time.Hour+time.Duration(i)*time.Second); err != nil {
				t.Error(err)
			}
		}
	})
	for range 3000 {
		held(t, other, "job", "a")
	}
}

// While flock(1) has the file, a detached reader can be verified, and nothing else.
func TestDetachedReaderBesideFlock(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir())
	take(t, s, detachedReader("job", "a"))
	file := foreign(t, s, "job", syscall.LOCK_EX)
	_, err := s.Extend(patience(t), "job", "a", time.Hour)
	wantErr(t, err, driver.ErrUnavailable, "flock(1)")
	held(t, s, "job", "a")
	unlockFile(t, file)
	release(t, s, "job", "a", driver.OutcomeReleased)
}

func init() {
	scripts["reserve and read"] = func(dir string) error {
		s, err := Open(dir)
		if err != nil {
			return err
		}
		r := detachedReader("job", "child")
		if _, err := s.Wait(background, r, true); err != nil {
			return err
		}
		g, err := s.Acquire(background, r)
		if err != nil {
			return err
		}
		fmt.Println("fence", g.Fence)
		pause()
		return s.Close()
	}
	scripts["no room for a reader"] = withoutRoom
}

// On a full disk, a detached reader that cannot be recorded leaves the name free.
func TestDetachedReaderOnAFullDisk(t *testing.T) {
	t.Parallel()
	start(t, "no room for a reader", t.TempDir(), inNamespace).end()
}

func withoutRoom(dir string) error {
	if err := syscall.Mount("padlock", dir, "tmpfs", 0, "size=256k,mode=700"); err != nil {
		return err
	}
	s, err := Open(filepath.Join(dir, "locks"))
	if err != nil {
		return err
	}
	for _, r := range []driver.Request{request("job", "w"), shared("job", "p")} { // which makes both files
		if _, err := s.Acquire(background, r); err != nil {
			return err
		}
		if _, err := s.Release(background, "job", r.Token.Text(), 0); err != nil {
			return err
		}
	}
	if err := os.Truncate(pathOf(s, "job"), readersOffset); err != nil {
		return err
	}
	if err := fillBytes(filepath.Join(dir, "ballast")); err != nil {
		return err
	}
	if _, err := s.Acquire(background, detachedReader("job", "a")); !errors.Is(err, driver.ErrUnavailable) || !strings.Contains(err.Error(), "no space") {
		return fmt.Errorf("a detached reader: %w", err)
	}
	if _, err := s.Acquire(background, request("job", "w")); err != nil {
		return fmt.Errorf("afterwards: %w", err)
	}
	return s.Close()
}
