// Package stampede prevents cache stampedes. If a thousand requests find the same value out of
// date, one of them makes it, and the others wait for it or get the old value meanwhile. This holds
// for all goroutines, processes and machines that share a lock store of package padlock.
//
//	pages, err := stampede.New(locker, stampede.NewMemory(10_000), "pages", time.Minute, render,
//		stampede.Stale(10*time.Minute))
//	defer pages.Close(ctx)
//
//	page, err := pages.Get(ctx, "/front") // calls render(ctx, "/front"), at most once at a time
//
// [Cache] does this for values and [Files] for files. [Prevent], [Do] and [DoPer] are for work that
// leaves no value: the second caller skips it.
//
// # Guarantees
//
// While the lock store keeps its promises, at most one function per key runs at a time. A caller
// checks the value again under the lock before it runs the function. The lease of a worker is
// short, and is renewed while the worker lives. If a worker dies, another one replaces it when the
// lease has run out. A worker that was paused beyond its lease cannot overwrite a newer value,
// because values carry the fence of the lock under which they were made. A value whose key was
// invalidated while it was made is not kept. A function that fails is not called again, by any
// process, for ErrorTTL. A function that takes longer than TimeLimit is cancelled. If it ignores
// that, the package stops waiting for it, and it may still run when the next one begins.
//
// # Versions
//
// Values carry the number of the format in which they are kept. A value of a newer format counts as
// absent and is made again; its fence still keeps an older worker from overwriting it by mistake.
// So two versions of padlock may run at the same time, and you may go back to the older one. Until
// all processes have the same version, values may be made more often than usual.
package stampede
