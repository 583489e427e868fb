package padlock_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/fence"
	"github.com/padlock-go/padlock/stores/filestore"
	"github.com/padlock-go/padlock/stores/memstore"
)

var (
	ctx     = context.Background()
	invoice = "invoice 42"
)

// locksDirectory stands for a directory such as /var/lib/shop/locks.
func locksDirectory() string { return filepath.Join(scratch, "locks") }

var scratch string // of the examples

func TestMain(m *testing.M) {
	var err error
	if scratch, err = os.MkdirTemp("", "padlock-example-"); err != nil {
		panic(err)
	}
	status := m.Run()
	os.RemoveAll(scratch)
	os.Exit(status)
}

// save stands for work that at most one process may do at a time.
func save(ctx context.Context, what string, fence uint64) error {
	fmt.Println(what, "saved, with a fence:", fence > 0)
	return ctx.Err()
}

// Do runs a function under a lock.
func ExampleLocker_Do() {
	store, err := filestore.Open(locksDirectory()) // or memstore, quorum, …
	if err != nil {
		fmt.Println(err)
		return
	}
	locker := padlock.New(store)
	defer locker.Close(ctx)

	err = locker.Do(ctx, "invoice:42", func(ctx context.Context) error {
		fence, _ := padlock.FenceFrom(ctx)
		return save(ctx, invoice, fence) // ctx ends when the lock is lost
	}, padlock.Wait(5*time.Second))
	fmt.Println(err)
	// Output:
	// invoice 42 saved, with a fence: true
	// <nil>
}

// A lock that is held for longer than one function runs.
func ExampleLocker_Acquire() {
	locker := padlock.New(memstore.New())
	defer locker.Close(ctx)

	lock, err := locker.Acquire(ctx, "printer", padlock.TTL(45*time.Second), padlock.Label("report"))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(lock.Name(), "is good for", lock.Remaining().Round(time.Minute), "without a renewal")
	work := lock.Context() // ends when the lock does
	fmt.Println(work.Err())
	if err := lock.Release(); err != nil { // an error says that the lock was lost meanwhile
		fmt.Println(err)
	}
	fmt.Println(errors.Is(context.Cause(work), padlock.ErrReleased))
	// Output:
	// printer is good for 1m0s without a renewal
	// <nil>
	// true
}

// The error has the holder of the name, the beginning of its hold, and the end of its lease.
func ExampleLocker_TryAcquire() {
	locker := padlock.New(memstore.New())
	defer locker.Close(ctx)
	first, _ := locker.Acquire(ctx, "backup", padlock.Label("nightly"))
	defer first.Release()

	_, err := locker.TryAcquire(ctx, "backup")
	var held *padlock.HeldError
	if errors.As(err, &held) {
		by := held.Holds[0]
		fmt.Printf("held for %q by this process: %v\n", by.Label, by.PID == os.Getpid())
		fmt.Println("its lease ends within 30 s:", time.Until(held.Until) <= 30*time.Second)
	}
	// Output:
	// held for "nightly" by this process: true
	// its lease ends within 30 s: true
}

// The wait ends after 20 ms, or with ctx if that is sooner.
func ExampleWait() {
	locker := padlock.New(memstore.New())
	defer locker.Close(ctx)
	first, _ := locker.Acquire(ctx, "backup")
	defer first.Release()

	_, err := locker.Acquire(ctx, "backup", padlock.Wait(20*time.Millisecond))
	fmt.Println("held:", errors.Is(err, padlock.ErrHeld))

	short, cancel := context.WithTimeout(ctx, 10*time.Millisecond)
	defer cancel()
	_, err = locker.Acquire(short, "backup", padlock.Wait(time.Hour))
	fmt.Println("ctx has ended:", errors.Is(err, context.DeadlineExceeded)) // and mostly ErrHeld, too
	// Output:
	// held: true
	// ctx has ended: true
}

// A reader that has to write becomes the only holder, writes, and lets the readers in again.
func ExampleLock_Promote() {
	locker := padlock.New(memstore.New())
	defer locker.Close(ctx)
	reader, _ := locker.Acquire(ctx, "catalogue", padlock.Shared())
	other, _ := locker.Acquire(ctx, "catalogue", padlock.Shared())
	fmt.Println("two readers at once")

	other.Release()                             // or Promote would wait for it
	if err := reader.Promote(ctx); err != nil { // ErrPromotionConflict: another reader was first
		fmt.Println(err)
		return
	}
	_, err := locker.TryAcquire(ctx, "catalogue", padlock.Shared())
	fmt.Println("alone:", errors.Is(err, padlock.ErrHeld))
	if err := reader.Demote(ctx); err != nil {
		fmt.Println(err)
		return
	}
	_, err = locker.TryAcquire(ctx, "catalogue", padlock.Shared())
	fmt.Println("readers come in again:", err == nil)
	// Output:
	// two readers at once
	// alone: true
	// readers come in again: true
}

// The fence stops the late write of a holder that was paused for too long. Package fence has guards
// for SQL, Redis and HTTP, too.
func ExampleLock_Fence() {
	locker := padlock.New(memstore.New())
	defer locker.Close(ctx)
	var stock fence.Register // guards the stock

	first, _ := locker.Acquire(ctx, "stock")
	paused := first.Fence()
	first.Release() // as if its lease had run out while it was paused
	second, _ := locker.Acquire(ctx, "stock")
	write := func() error { return nil }
	fmt.Println(stock.Do(ctx, "stock", second.Fence(), write))
	fmt.Println("stale:", errors.Is(stock.Do(ctx, "stock", paused, write), fence.ErrStale))
	// Output:
	// <nil>
	// stale: true
}

// One process hands its lock to another one. The name is not free in between.
func ExampleLocker_Adopt() {
	server := memstore.New()
	here, there := padlock.New(server), padlock.New(server.Open())
	defer here.Close(ctx)
	defer there.Close(ctx)
	lock, _ := here.Acquire(ctx, "upload:7")

	key, err := lock.Export(ctx)
	if err != nil {
		fmt.Println(err) // errors.ErrUnsupported: bound to this process
		return
	}
	text := key.Text() // send it as a secret

	received, err := padlock.ParseKey(text)
	if err != nil {
		fmt.Println(err)
		return
	}
	adopted, err := there.Adopt(ctx, received)
	fmt.Println(err, adopted.Name(), "with a new fence:", adopted.Fence() > lock.Fence())
	fmt.Println("the first is out:", errors.Is(lock.Check(ctx), padlock.ErrLost))
	// Output:
	// <nil> upload:7 with a new fence: true
	// the first is out: true
}

// Many machines start a job at the same time, by clocks that differ a little. It runs once.
func ExampleHoldAtLeast() {
	server := memstore.New()
	for machine := range 3 {
		locker := padlock.New(server.Open())
		lock, err := locker.TryAcquire(ctx, "nightly", padlock.HoldAtLeast(30*time.Second))
		if errors.Is(err, padlock.ErrHeld) {
			fmt.Println("machine", machine, "has nothing to do")
			continue
		}
		fmt.Println("machine", machine, "does it")
		lock.Release() // the name stays taken for the rest of the 30 s
	}
	// Output:
	// machine 0 does it
	// machine 1 has nothing to do
	// machine 2 has nothing to do
}

// After an alert, the next one is sent after ten minutes at the earliest.
func ExampleCoolDown() {
	locker := padlock.New(memstore.New())
	defer locker.Close(ctx)

	for range 2 {
		lock, err := locker.TryAcquire(ctx, "alert:disk", padlock.CoolDown(10*time.Minute))
		var held *padlock.HeldError
		if errors.As(err, &held) {
			fmt.Println("quiet, for", time.Until(held.Until).Round(time.Minute))
			return
		}
		fmt.Println("the disk is full")
		lock.Release()
	}
	// Output:
	// the disk is full
	// quiet, for 10m0s
}

// A caller that can wait for only a minute does not queue behind a job that takes an hour.
func ExampleSkipIfOutlived() {
	locker := padlock.New(memstore.New())
	defer locker.Close(ctx)
	long, _ := locker.Acquire(ctx, "index", padlock.HoldAtMost(time.Hour))
	defer long.Release()

	start := time.Now()
	_, err := locker.Acquire(ctx, "index", padlock.Wait(time.Minute), padlock.SkipIfOutlived())
	fmt.Println("held:", errors.Is(err, padlock.ErrHeld), "and not waited:", time.Since(start) < time.Minute/2)
	// Output:
	// held: true and not waited: true
}

func ExampleLocker_Inspect() {
	locker := padlock.New(memstore.New())
	defer locker.Close(ctx)
	lock, _ := locker.Acquire(ctx, "index", padlock.Label("rebuild"), padlock.Shared())

	state, err := locker.Inspect(ctx, "index")
	if err != nil {
		fmt.Println(err) // errors.ErrUnsupported: this store cannot tell
		return
	}
	for _, hold := range state.Holds {
		fmt.Println(hold.Label, "shared:", hold.Shared)
	}
	lock.Release()
	state, _ = locker.Inspect(ctx, "index")
	fmt.Println("holders:", len(state.Holds))
	// Output:
	// rebuild shared: true
	// holders: 0
}

// The program counts events by outcome. The name of a lock makes a poor label for a metric, because
// there are too many names.
func ExampleObserverFunc() {
	var acquired, refused, lost atomic.Int64
	locker := padlock.New(memstore.New(), padlock.Observe(padlock.ObserverFunc(func(_ context.Context, e padlock.Event) {
		switch e.Kind {
		case padlock.EventAcquired:
			acquired.Add(1) // e.Took is the time of the wait
		case padlock.EventRefused:
			refused.Add(1) // e.Outcome says why: held, timeout, canceled, unavailable, …
		case padlock.EventLost:
			lost.Add(1)
		}
	})))
	defer locker.Close(ctx)

	lock, _ := locker.Acquire(ctx, "index")
	locker.TryAcquire(ctx, "index")
	lock.Release()
	fmt.Println(acquired.Load(), "acquired,", refused.Load(), "refused,", lost.Load(), "lost")
	fmt.Println(locker.Stats().Held, "held now")
	// Output:
	// 1 acquired, 1 refused, 0 lost
	// 0 held now
}

// spans is an observer that gives each acquire and each hold a span. Real ones come from a tracer;
// here a span is its path.
type spans struct{}

type spanOf struct{}

func (spans) ObserveStart(ctx context.Context, e padlock.Event) context.Context {
	parent, _ := ctx.Value(spanOf{}).(string)
	return context.WithValue(ctx, spanOf{}, parent+"/"+e.Kind.String())
}

func (spans) Observe(ctx context.Context, e padlock.Event) {
	if e.Kind == padlock.EventRefused {
		fmt.Println(ctx.Value(spanOf{}), "ends:", e.Outcome)
	}
}

// An observer sees where acquires, holds and releases begin and end, with the contexts of their
// callers, and can add values such as spans to these contexts.
func ExampleObserve() {
	locker := padlock.New(memstore.New(), padlock.Observe(spans{}), padlock.Logger(slog.Default()))
	defer locker.Close(ctx)

	request := context.WithValue(ctx, spanOf{}, "GET /index")
	locker.Do(request, "index", func(ctx context.Context) error {
		fmt.Println("the work runs in", ctx.Value(spanOf{}))
		_, err := locker.TryAcquire(request, "index")
		return err
	})
	// Output:
	// the work runs in GET /index/acquiring/acquired
	// GET /index/acquiring ends: held
}

// A job that hangs does not keep the lock for ever, although its lease is renewed.
func ExampleHoldAtMost() {
	locker := padlock.New(memstore.New())
	defer locker.Close(ctx)

	err := locker.Do(ctx, "index", func(ctx context.Context) error {
		<-ctx.Done() // it hangs
		return context.Cause(ctx)
	}, padlock.HoldAtMost(20*time.Millisecond))
	fmt.Println(errors.Is(err, padlock.ErrMaxHold))
	// Output:
	// true
}

// Two tenants of one store use the same name for two locks.
func ExampleWithPrefix() {
	store := memstore.New()
	defer store.Close()
	for _, tenant := range []string{"tenant-1:", "tenant-2:"} {
		locker := padlock.New(padlock.WithPrefix(store, tenant), padlock.KeepStoreOpen())
		defer locker.Close(ctx)
		if _, err := locker.TryAcquire(ctx, "nightly report"); err != nil {
			fmt.Println(err)
		}
	}
	states, err := store.List(ctx, "tenant-")
	fmt.Println(len(states), "locks", err)
	// Output: 2 locks <nil>
}
