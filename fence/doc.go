// Package fence has guards that refuse the writes of a process that has lost its lock and does not
// know it yet.
//
// A process may be paused, or cut off, for longer than its lease, and then go on as if nothing had
// happened. No lock can stop that. But every grant of a lock carries a fence, a number greater than
// that of every earlier grant ([padlock.Lock.Fence], [padlock.FenceFrom]). A resource that
// remembers the greatest fence that it has seen, and refuses writes with a smaller one, is safe
// from such a process. Nothing else makes the resource safe.
//
// Use it if two holders at the same time would damage data. If the data are in the database of
// package sqlstore or in etcd, use CheckTx of that store or IsHolder of package etcdstore instead:
// they need no column for a fence.
//
// The guards of this package depend on where the resource is:
//
//   - in this process: [Register]; other processes do not see it
//   - in an SQL database: [NewSQL], a condition in the statement that writes
//   - in Redis: [RedisHash], a script
//   - behind HTTP: [Transport] and [CheckResponse] at the client, [Middleware]
//     at the server
//
// A guard refuses a fence that is smaller than the greatest fence that it has seen. The error is
// [ErrStale], and if both numbers are known, a [*StaleError]. With SQL it is [ErrNotApplied],
// because a missing row looks the same.
//
// A guard accepts a fence that is equal to the greatest one. The same holder may write again, or
// several readers may hold a shared lock. All readers have the same fence if
// driver.Guarantees.SharedFence of the store is PromiseYes. In a quorum the readers may have
// different fences if a member was late or has come back. The guards then refuse the readers with
// the smaller fences.
//
// Checking and writing must be one step. Otherwise a process may check its fence, be paused, and
// write when another process has the lock. The page docs/fences.md has a complete program for SQL.
package fence

import (
	"errors"
	"fmt"
	"strconv"
)

// Errors of the guards. Test for them with errors.Is.
var (
	// ErrStale: the resource has seen a greater fence, so another process got the lock since. The
	// work must stop. It is useless to try again.
	ErrStale = errors.New("fence is stale")
	// ErrMissing: there is no fence, so nothing can be guarded. A store without fences gives the
	// number 0, which is not a fence.
	ErrMissing = errors.New("fence is missing")
	// ErrMalformed: the number or text cannot be a fence.
	ErrMalformed = errors.New("fence is malformed")
)

// fenceLimit is the first number that is not a fence. JSON, Lua and floating point keep all smaller
// numbers exactly.
const fenceLimit = 1 << 53

// StaleError has the fence that was refused and the greater one that was seen before. errors.Is
// finds ErrStale in it.
type StaleError struct {
	Name  string // the name of the resource, if known
	Fence uint64 // the fence that was refused
	Seen  uint64 // the greatest fence before it
}

// Error returns a text with both numbers.
func (e *StaleError) Error() string {
	name := ""
	if e.Name != "" {
		name = " for " + strconv.Quote(e.Name)
	}
	return fmt.Sprintf("fence %d%s is stale: %d was here before", e.Fence, name, e.Seen)
}

// Is reports whether target is ErrStale.
func (e *StaleError) Is(target error) bool { return target == ErrStale }

// check returns an error for a number that is not a fence.
func check(fence uint64) error {
	switch {
	case fence == 0:
		return ErrMissing
	case fence >= fenceLimit:
		return fmt.Errorf("%w: %d is not below 2^53", ErrMalformed, fence)
	}
	return nil
}
