// Package stampede keeps a thousand requests that find the same value out of date from making it a
// thousand times: one of them makes it, over all goroutines, processes and machines that share a
// store of package padlock, and the others wait for it or get the old value meanwhile.
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
// # What is promised
//
// While the lock store keeps its promises, at most one function per key runs at a time, and a caller
// runs it only after it has looked again under the lock. A worker that dies is replaced when its
// short lease, which is renewed while it lives, has run out. A worker that was paused beyond its
// lease cannot overwrite a newer value, because values carry the fence of the lock they were made
// under. A value whose key was invalidated while it was made is not kept. A function that fails is
// not called again, by any process, for ErrorTTL. A function that takes longer than TimeLimit is
// cancelled; if it ignores that, it is given up, and it may still run when the next one begins.
//
// # Versions
//
// Values carry the number of the format in which they are kept. A value of a newer format counts as
// absent and is made again; its fence still keeps an older worker from overwriting it by mistake. So
// two versions of padlock may run at the same time, and you may go back to the older one; until all
// processes have one version, a value may be made more often than its time says.
package stampede
