// Package fast has optional interfaces of stores that no lock needs: they save requests, or serve
// what only some stores can do. They may change with every version. Use it if you write a store and
// know package driver. Programs that use locks do not need it.
//
// The caller finds an interface with [driver.As]. Without it, the caller does what is said here:
//
//   - [SlotTaker] takes any permit of n in one step. Without it, the caller tries one permit after
//     the other.
//   - [BatchExtender] renews many leases with one request. Without it, each renewal is a request.
//   - [Passer] passes a lock on inside a process with one request. Without it, the caller sends a
//     Release and an Acquire.
//   - [Recorder] lets machines share the history of the runs of a name. Without it, each machine
//     has its own.
//   - [FileSharer] lets a child process share a hold. Without it, Lock.File is not supported.
//
// The rules of package driver about names, tokens, errors, time and Guarantees.Lacks hold here,
// too. What is stored does not change with a version: the names of permits and the form of a
// [Record].
package fast

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/padlock-go/padlock/driver"
)

// SlotTaker makes one try for all of the permits 0 to n-1 of r.Name, in one step. The grant is a
// hold of r.Token on SlotName(r.Name, slot). If r.Token has such a hold, the request is a repeat.
//
// If no permit can be granted, the error is a *HeldError with the holds of all of them. It is a
// *HeldError, too, if others hold the lock SlotGate(r.Name, n) or wait for it, unless overtake is
// true. If r is shared, has Replaces or FenceAbove, or if n is above Guarantees.SlotsAtOnce, the
// error is ErrInvalid.
type SlotTaker interface {
	AcquireSlot(ctx context.Context, r driver.Request, n int, overtake bool) (slot int, g driver.Grant, err error)
}

// BatchExtender returns for every hold what Extend would return, in the same order. The error of
// one hold changes nothing for the others. No token occurs twice. If err is not nil, nothing was
// sent. It is errors.ErrUnsupported if the caller has to call Extend for each hold.
type BatchExtender interface {
	ExtendBatch(ctx context.Context, holds []Extension) (results []Extended, err error)
}

// Extension has the arguments of one Extend.
type Extension struct {
	Name  string
	Token driver.Token
	TTL   time.Duration
}

// Extended is the result of one Extend.
type Extended struct {
	Grant driver.Grant
	Err   error
}

// Passer ends the exclusive hold of token, as Release without a cool-down does. Then it makes one
// try for r, as Acquire does, or none. In between, only a waiter in the store's queue can get the
// name. The request r is exclusive, for the same name, with another token and without Replaces.
//
// The Outcome is that of the release. If it is OutcomeReleased, r may be granted, with a TTL above
// 0; but not if others wait or the name cools down.
//
// A token is spent when Pass released it, or returned no Grant for it. A repeated Pass returns the
// same result while the new hold is live. After ErrUncertain, the release and the try are both
// uncertain.
type Passer interface {
	Pass(ctx context.Context, token string, r driver.Request) (driver.Outcome, driver.Grant, error)
}

// Recorder keeps a short history for each name. No method needs a lock or changes one.
type Recorder interface {
	// Record adds records to the history of name. A record replaces the one with the same ID. In
	// each series, the store keeps the MaxRecords records with the greatest IDs. After
	// ErrUncertain, a repeat is harmless.
	Record(ctx context.Context, name string, records []Record) error

	// Records returns the records of name, sorted by ID, or none.
	Records(ctx context.Context, name string) ([]Record, error)

	// Recorded returns the records of the names that begin with prefix, as Records does. If more
	// than most names have records, it returns those of most names for which something was recorded
	// last. It sends a few requests, however many names there are.
	Recorded(ctx context.Context, prefix string, most int) (map[string][]Record, error)
}

// FileSharer returns a duplicate of the file that carries a hold, for exec.Cmd.ExtraFiles. The
// caller must close it. While any copy is open, the name stays held, even after Release, which
// returns OutcomeInherited, and after the death of this process.
type FileSharer interface {
	File(name, token string) (*os.File, error)
}

func invalid(param, why string) error {
	return fmt.Errorf("%w: %s %s", driver.ErrInvalid, param, why)
}
