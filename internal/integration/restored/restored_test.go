package restored

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"sync"
	"testing"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/internal/safety"
	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/open/all"
)

// A place is a store whose server has a backup.
type place struct {
	url     string
	ttl     time.Duration // of the locks
	backUp  func()        // makes a backup of the server that runs
	putBack func()        // stops the server, puts the backup back and starts it

	proxy *server.Proxy // through which processes reach the server
	addr  string        // of the server
	opts  []padlock.LockerOption
}

// A scene is one restored backup, and the processes that see it. Each process has a Locker and a
// store of its own.
type scene struct {
	*testing.T
	place
	a, b, c *padlock.Locker
}

func (s *scene) open() *padlock.Locker {
	s.Helper()
	store, err := all.Store(s.Context(), s.url)
	if err != nil {
		s.Fatal(err)
	}
	l := padlock.New(store, append(s.opts, padlock.TTL(s.ttl))...)
	s.Cleanup(func() { s.end(l) })
	return l
}

// end ends a process. Some of its locks are lost.
func (s *scene) end(l *padlock.Locker) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	_ = l.Close(ctx)
}

func (s *scene) take(l *padlock.Locker, name string, o ...padlock.Option) *padlock.Lock {
	s.Helper()
	var lock *padlock.Lock
	server.Eventually(s, func() (err error) { // after the restart, a store may connect first
		lock, err = l.Acquire(s.Context(), name, append([]padlock.Option{padlock.Wait(time.Minute)}, o...)...)
		return err
	})
	return lock
}

// release releases a lock, which the restart may have ended.
func (s *scene) release(l *padlock.Lock) {
	s.Helper()
	if err := l.Release(); err != nil && !errors.Is(err, padlock.ErrLost) && !errors.Is(err, padlock.ErrExpired) {
		s.Errorf("release of %s: %v", l.Name(), err)
	}
}

// run runs a program of the operator.
func run(t testing.TB, name string, args ...string) {
	t.Helper()
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", name, err, out)
	}
}

// A found is what the processes see after a backup came back.
type found struct {
	kept    error         // of the holder of a lock that is in the backup
	free    time.Duration // when a lock of the backup that was released since was free
	queue   time.Duration // when a name was free whose holder and waiter of the backup have left since
	overlap time.Duration // how long two had a lock that was granted since
	learned error         // what its first holder learned
	waiter  time.Duration // from the release of a lock of the backup to the grant of its waiter
	next    int64         // the next fence less the last one
	raised  int64         // the same of a name whose fence was raised above the clock since
}

func (f found) String() string {
	return fmt.Sprintf("kept: %v\nfree %v, queue %v\noverlap %v, learned: %v\nwaiter %v\nfences %+d, raised %+d",
		f.kept, f.free, f.queue, f.overlap, f.learned, f.waiter, f.next, f.raised)
}

// A want is what a store promises to the processes.
type want struct {
	lives  bool          // a lock that was released since is held again while its process lives
	stays  bool          // every lock stays as it is
	guard  bool          // a restart guard keeps the second holder out
	late   time.Duration // how much later than after a lease names are free
	waiter time.Duration // how late a waiter may notice a release
	falls  bool          // fences may fall, since the backup is only seconds old
	// The operator keeps all processes away from the server until the longest lease has ended.
	keptOut bool
	old     bool // the backup is older than every lease in it
}

const year = uint64(365 * 24 * time.Hour / time.Microsecond)

// play lets processes take locks before and after a backup, puts it back, and checks what they see.
func (p place) play(t *testing.T, w want) {
	t.Helper()
	s := &scene{T: t, place: p}
	s.a, s.b, s.c = s.open(), s.open(), s.open()
	kept, released, queue := s.take(s.a, "kept"), s.take(s.a, "released"), s.take(s.a, "queue")
	for _, name := range []string{"later", "counted", "raised"} {
		s.release(s.take(s.a, name))
	}
	passed, waiter := s.wait("queue"), s.wait("kept")
	<-time.After(p.ttl / 2) // the locks have been renewed, together
	s.backUp()

	s.release(released)
	s.release(queue)
	s.release(<-passed)
	later := s.take(s.b, "later")
	var last uint64
	for range 5 {
		counted := s.take(s.b, "counted")
		last = counted.Fence()
		s.release(counted)
	}
	high := s.take(s.b, "raised", padlock.FenceAbove(last+year))
	s.release(high)
	if w.old {
		<-time.After(p.ttl + w.late)
	}
	if w.keptOut {
		p.proxy.Point("127.0.0.1:1") // nobody listens there
	}
	s.putBack()
	if w.keptOut {
		<-time.After(p.ttl + w.late)
		p.proxy.Point(p.addr)
	}
	if w.keptOut || w.old {
		s.nothingLeft()
	}

	var f found
	s.watch(&f, later, w.lives && !w.keptOut)
	f.next = int64(s.take(s.c, "counted").Fence() - last)
	f.raised = int64(s.take(s.c, "raised").Fence() - high.Fence())
	<-time.After(s.ttl) // a lock whose lease is not renewed has ended
	f.kept = kept.Check(t.Context())
	start := time.Now()
	_ = kept.Release() // the lock may be lost
	if !w.lives || w.keptOut {
		s.release(<-waiter)
	}
	f.waiter = time.Since(start)
	t.Log(f)
	f.check(t, p, w)
}

// nothingLeft fails the test if the backup still holds a name that was released since.
func (s *scene) nothingLeft() {
	s.Helper()
	for _, name := range []string{"released", "queue"} {
		var st padlock.State
		server.Eventually(s, func() (err error) {
			st, err = s.c.Inspect(s.Context(), name)
			return err
		})
		if len(st.Holds) > 0 {
			s.Errorf("%s is still held: %v", name, st.Holds)
		}
	}
}

// slack is what a busy machine may add. A lock that stays is refused for longer.
const slack = 15 * time.Second

// check compares what the processes saw with what the store promises.
func (f found) check(t *testing.T, p place, w want) {
	t.Helper()
	if f.kept != nil && w.stays || f.kept == nil && w.keptOut { // else it depends on the age of the backup
		t.Errorf("the holder of a lock that is in the backup gets %v", f.kept)
	}
	end := p.ttl + w.late + slack
	if f.free > end || f.queue > end {
		t.Errorf("names are free after %v and %v, want at most %v", f.free, f.queue, end)
	}
	if !errors.Is(f.learned, padlock.ErrLost) != w.stays {
		t.Errorf("the holder of a lock that is gone gets %v", f.learned)
	}
	if f.overlap > p.ttl+slack || (w.guard || w.keptOut) && f.overlap > 0 {
		safety.TwoHold(t, "for %v, and a lease is %v", f.overlap, p.ttl)
	}
	if f.waiter > w.waiter+slack {
		t.Errorf("the waiter gets the lock %v after its release", f.waiter)
	}
	if !w.falls {
		safety.Rises(t, f.next, 0)
	}
	if f.raised > 0 {
		t.Error("docs/restored.md says that a fence ahead of the clock falls")
	}
}

// watch waits until the names that the backup changed are free, and the first holder of the name
// "later" has learned of its loss.
func (s *scene) watch(f *found, later *padlock.Lock, ends bool) {
	var all sync.WaitGroup
	start := time.Now()
	for name, d := range map[string]*time.Duration{"released": &f.free, "queue": &f.queue} {
		all.Go(func() {
			l := s.waits(s.c, name)
			*d = time.Since(start)
			s.release(l)
		})
	}
	var second time.Time
	all.Go(func() {
		s.waits(s.c, "later")
		second = time.Now()
	})
	select {
	case <-later.Context().Done():
		f.learned = context.Cause(later.Context())
	case <-time.After(4 * s.ttl):
		s.release(later)
	}
	learned := time.Now()
	if ends {
		s.end(s.a)
		s.end(s.b)
	} else {
		busy := s.waits(s.a, "busy") // b goes on to wait, and keeps what it needs for that
		waiter := s.wait("busy")
		defer func() {
			s.release(busy)
			s.release(<-waiter)
		}()
	}
	all.Wait()
	f.overlap = learned.Sub(second)
}

// wait begins to wait for a lock in the process b, and returns when the store has the waiter.
func (s *scene) wait(name string) <-chan *padlock.Lock {
	s.Helper()
	granted := make(chan *padlock.Lock, 1)
	go func() { granted <- s.waits(s.b, name) }()
	s.queued(name)
	return granted
}

// waits takes a lock, for 40 seconds at most. A store refuses to wait while it has no server, or
// while a guard acts.
func (s *scene) waits(p *padlock.Locker, name string) *padlock.Lock {
	ctx, cancel := context.WithTimeout(s.Context(), 40*time.Second)
	defer cancel()
	for {
		l, err := p.Acquire(ctx, name)
		switch {
		case err == nil:
			return l
		case errors.Is(err, padlock.ErrClosed):
			return nil // the process has ended
		case ctx.Err() != nil || !errors.Is(err, padlock.ErrUnavailable) && !errors.Is(err, padlock.ErrUncertain):
			s.Errorf("%s: %v", name, err)
			return nil
		}
		<-time.After(50 * time.Millisecond)
	}
}

// queued waits until the store has a waiter for the name.
func (s *scene) queued(name string) {
	s.Helper()
	server.Eventually(s, func() error {
		st, err := s.b.Inspect(s.Context(), name)
		if err == nil && st.Waiters == 0 {
			err = errors.New("nobody waits for " + name)
		}
		return err
	})
}
