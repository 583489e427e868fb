// Package stampede prevents cache stampedes. If a thousand requests find the same value out of
// date, one of them makes it, and the others wait for it or get the old value meanwhile. This holds
// for all goroutines, processes and machines that share a lock store of package padlock.
//
// Use it if a value is expensive to make and many requests ask for it. If a lost or doubled piece
// of work does harm, use a lock of package padlock instead: a stampede is prevented as far as the
// lock store allows, and no further.
//
//	pages, err := stampede.New(locker, stampede.NewMemory(), "pages", render,
//		stampede.Fresh(time.Minute), stampede.Stale(10*time.Minute))
//	defer pages.Close(ctx)
//
//	page, err := pages.Get(ctx, "/front") // calls render(ctx, "/front"), at most once at a time
//
// [Cache] does this for values; with a [Dir] they are files that a web server can send. For work
// that leaves no value, and that the second caller skips, use TryDo of package padlock.
//
// # Guarantees
//
// While the lock store keeps its promises, at most one function per key runs at a time. Before a
// caller runs the function, it takes the lock and checks the value again. The lease of the lock is
// short, and is renewed while the worker lives. If a worker dies, another worker takes the lock
// when the lease has run out.
//
// Values carry the fence of the lock under which they were made. So a worker that was paused beyond
// its lease cannot overwrite a newer value. A value is not kept if its key was invalidated while it
// was made.
//
// After an error, no process calls the function again until ErrorTTL is over. If a function takes
// longer than TimeLimit, its context ends. If it ignores that, the package stops waiting for it,
// and it may still run when the function is called again.
//
// # Versions
//
// Values carry the number of the format in which they are kept. A value of a newer format counts as
// absent and is made again. But a worker with a smaller fence still cannot overwrite that value. So
// two versions of padlock may run at the same time, and you may go back to the older one. Until all
// processes have the same version, values may be made more often than usual.
package stampede
