// Package fence has guards that refuse writes by a process that lost its lock and does not know it
// yet.
//
// No lock can stop a process that was paused, or cut off, for longer than its lease and goes on as
// if nothing had happened. But every grant of a lock carries a fence, a number greater than that of
// all grants before ([padlock.Lock.Fence], [padlock.FenceFrom]). A resource that remembers the
// greatest fence that it has seen, and refuses writes with a smaller one, is safe from such a
// process. Nothing else makes it safe.
//
// The guards of this package, by where the resource is:
//
//   - in this process: [Register]; other processes do not see it
//   - in an SQL database: [NewSQL], a condition of the statement that writes
//   - in Redis: [RedisHash], a script
//   - behind HTTP: [Transport] and [CheckResponse] at the client, [Middleware]
//     at the server
//
// All of them accept a fence equal to the greatest: it comes from the same holder, which writes
// again, or from another reader of the same generation. Readers that hold a shared lock at the same
// time, without a writer between them, are one generation. A store whose
// driver.Guarantees.SharedFence is Yes gives them the same fence. A quorum does so while all its
// members answer: if a member was late, or has come back, a new reader may get a greater fence, and
// then the guards refuse the older readers. The guards refuse a smaller fence with [ErrStale]; if
// both numbers are known the error is a [*StaleError].
//
// Checking and writing must be one step. If a program first checks the fence and then writes, a
// paused holder gets through between the two. The page docs/fences.md has a complete program for
// SQL.
package fence

import (
	"errors"
	"fmt"
	"strconv"
)

// Errors of the guards. Test for them with errors.Is.
var (
	// ErrStale: a greater fence was here before, so another process got the lock since. The work
	// must stop; trying again cannot help.
	ErrStale = errors.New("fence is stale")
	// ErrMissing: there is no fence, so nothing can be guarded. Zero is no fence; a store without
	// fences gives it.
	ErrMissing = errors.New("fence is missing")
	// ErrMalformed: the number or text is not one that a fence can be.
	ErrMalformed = errors.New("fence is malformed")
)

// end is the first number that is no fence: JSON, Lua and floating point keep
// all numbers below it exactly.
const end = 1 << 53

// StaleError says which fence was refused, and why. errors.Is finds ErrStale in
// it.
type StaleError struct {
	Name  string // of the resource, if known
	Fence uint64 // that was refused
	Seen  uint64 // the greatest before it
}

// Error tells both numbers.
func (e *StaleError) Error() string {
	name := ""
	if e.Name != "" {
		name = " for " + strconv.Quote(e.Name)
	}
	return fmt.Sprintf("fence %d%s is stale: %d was here before", e.Fence, name, e.Seen)
}

// Is reports whether target is ErrStale.
func (e *StaleError) Is(target error) bool { return target == ErrStale }

// check refuses what is no fence.
func check(fence uint64) error {
	switch {
	case fence == 0:
		return ErrMissing
	case fence >= end:
		return fmt.Errorf("%w: %d is not below 2^53", ErrMalformed, fence)
	}
	return nil
}
