// Package padlock makes sure that a thing is done by one party at a time:
// among goroutines, processes, machines and languages.
//
//	store, err := filestore.Open("/var/lib/shop/locks") // or redisstore, quorum, memstore, …
//	locker := padlock.New(store)
//	defer func() {
//		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
//		defer cancel()
//		locker.Close(ctx) // releases what is held, even if the caller's context has ended
//	}()
//
//	err = locker.Do(ctx, "invoice:42", func(ctx context.Context) error {
//		fence, _ := padlock.FenceFrom(ctx)
//		return save(ctx, invoice, fence) // ctx ends when the lock is lost
//	}, padlock.Wait(5*time.Second))
//
// A [Locker] takes locks in one store. [Locker.Do] runs a function under a
// lock; [Locker.Acquire] and [Locker.TryAcquire] return a [Lock] that is held
// until [Lock.Release]. Leases are renewed while the process lives.
//
// # What a lock can promise
//
// A lease can end while the work goes on: the process may be paused, or cut
// off from the store, for longer than the lease. No lock of any library can
// keep two parties from working at once then. [Lock.Context] ends as soon as
// this process can know that its lock is over, and each grant has a fence, a
// number greater than that of all grants before. A resource that remembers the
// greatest fence it has seen, and refuses smaller ones, is safe from a holder
// that woke up late. Package fence has such guards; nothing else makes it safe.
//
// A process cannot know of time that none of its machine's clocks counts: while
// a hypervisor pauses a virtual machine, or after it restored one from a
// snapshot. Then Lock.Context ends with the next renewal, which is due within a
// third of the TTL, or with [Lock.Check], and not before the lease can have ended.
//
// [Locker.Guarantees] returns what a store promises beyond that.
package padlock
