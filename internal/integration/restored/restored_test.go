package restored

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"testing"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/open/all"
)

// A place is a store whose server has a backup.
type place struct {
	url     string
	ttl     time.Duration // of the locks
	backUp  func()        // makes a backup of the server that runs
	putBack func()        // stops the server, puts the backup back and starts it
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
	l := padlock.New(store, padlock.TTL(s.ttl))
	s.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_ = l.Close(ctx) // some locks are lost
	})
	return l
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

func (s *scene) release(l *padlock.Lock) {
	s.Helper()
	if err := l.Release(); err != nil {
		s.Errorf("release of %s: %v", l.Name(), err)
	}
}

// run runs a program of the operator.
func run(t testing.TB, name string, args ...string) {
	t.Helper()
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", name, err, out)
	} else if len(out) > 0 {
		t.Logf("%s: %s", name, out)
	}
}

// A found is what the processes see after a backup came back.
type found struct {
	kept    error         // of the holder of a lock that is in the backup, two leases after the restart
	until   time.Duration // how long a lock of the backup that was released since kept others out
	overlap time.Duration // how long two had a lock that was granted since
	learned error         // what its first holder learned
	waiter  time.Duration // from the release of a lock of the backup to the grant of its waiter
	next    int64         // the next fence less the last one
	raised  int64         // the same of a name whose fence was raised by FenceAbove since
}

func (f found) String() string {
	return fmt.Sprintf("kept: %v\nuntil %v\noverlap %v, learned: %v\nwaiter %v\nfences %+d, raised %+d", f.kept, f.until, f.overlap, f.learned, f.waiter, f.next, f.raised)
}

const year = uint64(365 * 24 * time.Hour / time.Microsecond)

// play lets processes take locks before and after a backup, puts it back, and returns what they see.
func (p place) play(t *testing.T) (f found) {
	s := &scene{T: t, place: p}
	s.a, s.b, s.c = s.open(), s.open(), s.open()
	kept, released := s.take(s.a, "kept"), s.take(s.a, "released")
	s.release(s.take(s.a, "later"))
	s.release(s.take(s.a, "counted"))
	s.release(s.take(s.a, "raised"))
	s.backUp()

	s.release(released)
	later := s.take(s.b, "later")
	var last uint64
	for range 5 {
		counted := s.take(s.b, "counted")
		last = counted.Fence()
		s.release(counted)
	}
	high := s.take(s.b, "raised", padlock.FenceAbove(last+year))
	s.release(high)
	granted := make(chan *padlock.Lock, 1)
	go func() { granted <- s.waits("kept") }()
	s.queued("kept")
	s.putBack()

	s.watch(&f, later)
	counted, again := s.take(s.c, "counted"), s.take(s.c, "raised")
	f.next, f.raised = int64(counted.Fence()-last), int64(again.Fence()-high.Fence())
	<-time.After(s.ttl) // a lock whose lease is not renewed has ended
	f.kept = kept.Check(t.Context())
	start := time.Now()
	_ = kept.Release() // the lock may be lost
	if l := <-granted; l != nil {
		f.waiter = time.Since(start)
		s.release(l)
	} else {
		f.waiter = -1
	}
	return f
}

// watch waits until both names that the backup changed are free, or taken again, and the first
// holder of the name "later" has learned of its loss.
func (s *scene) watch(f *found, later *padlock.Lock) {
	start := time.Now()
	free := make(chan time.Duration, 1)
	go func() {
		if l := s.waits("released"); l != nil {
			free <- time.Since(start)
			_ = l.Release()
			return
		}
		free <- -1
	}()
	second := make(chan time.Time, 1)
	go func() {
		if l := s.waits("later"); l != nil {
			second <- time.Now()
			<-s.Context().Done()
			return
		}
		second <- time.Time{}
	}()
	select {
	case <-later.Context().Done():
		learned := time.Now()
		f.learned = context.Cause(later.Context())
		if at := <-second; !at.IsZero() {
			f.overlap = learned.Sub(at)
		}
	case <-time.After(3 * s.ttl):
		f.learned = later.Check(s.Context())
	}
	f.until = <-free
}

// waits takes a lock, and returns nil if it gets none within a minute. A store refuses to wait while
// it has no server, or while a guard acts.
func (s *scene) waits(name string) *padlock.Lock {
	ctx, cancel := context.WithTimeout(s.Context(), 40*time.Second)
	defer cancel()
	for {
		l, err := s.c.Acquire(ctx, name)
		switch {
		case err == nil:
			return l
		case ctx.Err() != nil || !errors.Is(err, padlock.ErrUnavailable) && !errors.Is(err, padlock.ErrUncertain):
			s.Logf("%s: %v", name, err)
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
