// Package stampede lets one worker do what a thousand requests find undone at
// once: over all goroutines, processes and machines that share a store of
// package padlock.
//
//	cache := stampede.New(locker, stampede.NewMemory(10_000))
//	defer cache.Close(ctx)
//
//	page, err := stampede.Remember(ctx, cache, "front page", time.Minute, render,
//		stampede.Stale(10*time.Minute))
//
// [Remember] is a cache whose entries are made by one caller at a time; the
// others wait for its value, or are served the stale one. [Cache.File] is the
// same for a file. [Cache.Prevent], [Cache.Do] and [Cache.DoPer] are for work
// that leaves no value: the second caller skips it.
//
// # What is promised
//
// While the lock store keeps its promises, at most one function per key runs
// at a time, and a caller runs it only after it has looked again under the
// lock. A worker that dies is replaced when its short lease, which is renewed
// while it lives, has run out. A worker that was paused beyond its lease cannot
// overwrite a newer value: values carry the fence of the lock they were made
// under. A value whose key was invalidated while it was made is not kept. A
// function that fails is not called again, by any process, for ErrorTTL. One
// that takes longer than TimeLimit is cancelled, and one that ignores that is
// given up: it may still run when the next one begins.
package stampede
