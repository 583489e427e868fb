// Package padlock provides locks for goroutines, processes and machines, and for programs in other
// languages. At any time, a lock has at most one holder.
//
// Use it if work must not happen twice at the same time, in one process or on many machines. For
// goroutines of one process that need neither a time-out nor a lease, use sync.Mutex instead.
// docs/which-store.md helps to choose the store.
//
// It is made for work of ten milliseconds and more, some hundreds of waiters for a name, and some
// thousands of locks held by a process. Beyond that it stays correct, but it is not tuned for it;
// docs/scale.md says what one server carries.
//
//	store, err := filestore.Open("/var/lib/shop/locks") // or redisstore, quorum, memstore, …
//	locker := padlock.New(store)
//	defer func() {
//		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
//		defer cancel()
//		locker.Close(ctx) // releases all locks; a fresh ctx, since the program's has often ended
//	}()
//
//	err = locker.Do(ctx, "invoice:42", func(ctx context.Context) error {
//		fence, _ := padlock.FenceFrom(ctx)
//		return save(ctx, invoice, fence) // ctx ends when the lock is lost
//	}, padlock.Wait(5*time.Second))
//
// A [Locker] takes locks in one store. [Locker.Do] runs a function under a lock; [Locker.Acquire]
// and [Locker.TryAcquire] return a [Lock] that is held until [Lock.Release]. The Locker renews the
// leases of its locks while the process lives. [Observe] passes events to metrics, traces and logs.
//
// # What a lock can promise
//
// A lease can end while the work goes on, if the process is paused, or cut off from the store, for
// longer than the lease. Then no lock of any library can prevent two holders from working at once.
// [Lock.Context] ends as soon as this process can know that its lock is over. In addition, each
// grant has a fence, a number greater than that of every earlier grant. A resource that remembers
// the greatest fence it has seen, and refuses smaller ones, is safe from a holder that wakes up
// late. Package fence has such guards; nothing else makes the resource safe.
//
// A process cannot notice time that none of the machine's clocks counts. For example, no clock
// counts the time for which a hypervisor pauses a virtual machine, or the time between a snapshot
// and its restoration. In such a case Lock.Context may end later than the lease. It ends when the
// next renewal or [Lock.Check] finds that the lock is gone. The next renewal is due within a third
// of the TTL.
//
// [Locker.Guarantees] returns the promises of a store.
package padlock
