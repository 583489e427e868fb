// Package register makes a whole store of a register: a service that keeps one small value for each
// name and changes it by compare-and-set, such as object storage, or a key-value service with
// conditional writes. Use it for a store of such a service. If the service has transactions or
// scripts, implement package driver instead.
//
//	func (b bucket) Get(ctx context.Context, name string) (register.Value, error) { … }
//	func (b bucket) Put(ctx context.Context, name string, data []byte, version string) error { … }
//
//	store := register.New(bucket{…}, register.Options{Name: "bucket", Clock: register.Clock{Grain: time.Second}})
//
// A [Kind] adds what package open needs: URLs, parameters and promises. Package storekit/overhttp
// sends the requests if the service speaks HTTP. With both, a whole store has some sixty lines of
// code; the example of package drivertest is one.
//
// The store has leases, fences, shared locks, promotion, cool-downs, Inspect, Break and an id. It
// has no queue: waiters come in any order. If the register is a [Watcher], waiters are woken;
// otherwise they poll. If it is a [Lister], names can be listed.
//
// # Time
//
// A lease needs a clock that all processes share, or none at all. [Clock] says which one the
// register has, how coarse it is, and how far two front ends of the service may differ. A free name
// can then be taken later than the lease ends, by twice the sum of Grain and Skew at most. With
// [Clock.Observed] there is no common clock: a process calls a lease ended when nobody has renewed
// it for its length on the process's own clock. A process that comes anew, or that has not looked
// before, waits that long.
//
// # Requests
//
// A call sends a Get and, if something changes, a Put. If somebody else has written in between, the
// call begins again, after a short random pause, until ctx ends. If a Put has an unknown outcome,
// the call reads what is there: each value has a random number, so a process recognises its own.
// The error is driver.ErrUncertain only if the service stays silent or confirms no Put for
// driver.MaxSilence, or if others have written since. A Release changes the value even if the token
// has nothing, so that a Put that is still on its way cannot arrive behind it.
//
// The store never deletes a value, since the last fence is in it. A service may delete values after
// a long time, if the fences of such a name may begin again at the time of day.
//
// # Tests
//
// Package drivertest proves a register, too, but not all: count at the fake that an uncertain Put
// is sent once, and that a Watch waits. If it runs on a fake of the service, give each request of
// the fake a delay of a few milliseconds, and let the clocks of its front ends differ by Skew, the
// first one ahead in one run and behind in another. Without these, a register whose compare-and-set
// is wrong may pass, and so may one that states no Skew. For a service over HTTP, package
// storekit/overhttp/overhttptest does all this, and has most of the hooks that drivertest asks for.
package register

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/storekit"
)

// A Register keeps a value for each name. It is safe for concurrent use. Get and Put end soon after
// their ctx has ended, which happens after driver.MaxSilence at the latest.
type Register interface {
	// Get returns the value of a name. A name without a value has the zero Version. Every Get
	// must see the Put that ended last before it (strong consistency). Every error
	// counts as driver.ErrUnavailable, since a Get changes nothing.
	//
	// A proxy may answer in the place of the service as if all were well, with a page and the
	// status 200. Such a reply must be an error of Get and of Put: else it grants locks.
	//
	// The name "" is that of no lock. Its value belongs to the store as a whole. With Options.Keys,
	// the register gets keys instead of names, for "" the Prefix and "%padlock".
	Get(ctx context.Context, name string) (Value, error)

	// Put replaces the value of name if its version is still the given one; "" means that there
	// must be no value. The possible results:
	//
	//   - nil: the value was written.
	//   - ErrChanged: the value has another version. Nothing was written. If the service says which
	//     value it has, return a *Changed.
	//   - driver.ErrUnavailable: nothing was written, and nothing will be.
	//   - any other error: nobody knows. A register must not repeat such a Put by itself, so switch
	//     off what the client of the service repeats.
	Put(ctx context.Context, name string, data []byte, version string) error

	// Close ends what the register has opened.
	Close() error
}

// A Value is what Get found.
type Value struct {
	Data    []byte
	Version string    // "" if there is no value; two values of a name never share one
	Now     time.Time // the time by the service's clock, rounded down, and never zero; unused with Clock.Observed
}

// ErrChanged means that Put found another version.
var ErrChanged = errors.New("the value has changed")

// Changed is an ErrChanged with the value that Put found. It spares the store a Get.
type Changed struct{ Value }

// Error returns the text of ErrChanged.
func (*Changed) Error() string { return ErrChanged.Error() }

// Is makes a Changed an ErrChanged.
func (*Changed) Is(target error) bool { return target == ErrChanged }

// A Watcher can tell when a value changes.
type Watcher interface {
	// Watch returns when the value of name may have another version than the given one, which may
	// be "". It may return early, but a waiter sends a Get each time. It returns an error only if
	// ctx has ended or the service cannot be reached.
	Watch(ctx context.Context, name, version string) error
}

// A Lister knows the names that have a value.
type Lister interface {
	// Names returns the names that have a value and begin with prefix, in any order. It may return
	// "" and those of values of other programs. If it knows only some of the names, it returns them
	// together with an error that is errors.ErrUnsupported.
	Names(ctx context.Context, prefix string) ([]string, error)
}

// A register can be a driver.Reporter. Status of the store then has its findings, too.

// A Clock says what the times of a register are worth. The zero Clock is exact and shared by all.
// Open returns driver.ErrInvalid for a Skew that is out of its range.
type Clock struct {
	// Grain is how coarse Value.Now is: the true time is less than Grain later. It is 0 or more, as
	// 1 s for a service that counts in seconds. There is no error for less.
	Grain time.Duration
	// Skew is how far the clocks of two front ends of the service may differ, from 0 s to a minute.
	// Outside of this range, Open returns driver.ErrInvalid.
	Skew time.Duration
	// Observed means that there is no common clock. Grain and Skew are then unused.
	Observed bool
}

// Options are the settings of a store. Name is required; every other field may be left out. Open
// returns driver.ErrInvalid for a Skew and a Prefix that are out of range, and checks no other
// field.
type Options struct {
	// Name is the name of the kind of store: Guarantees.Store.
	Name string
	// Clock says which clock judges leases. Clock.Skew is from 0 s to a minute.
	Clock Clock

	// Where says where the values are. Two stores with the same text are in the same place, so
	// that they fail together. A prefix of names or keys is no part of it.
	Where string
	// NoVersion is a version that no value ever has, in the form of the service. If it is set, Open
	// checks that the service refuses a Put whose condition is not met. Leave it out if every
	// service behind the register is known to know conditions.
	NoVersion string

	// SurvivesRestart, SurvivesFailover and SafeClockJump are the promises of the service; see
	// driver.Guarantees. With Clock.Observed, SafeClockJump is always Yes. The other promises
	// follow from the register: leases, shared locks, cool-downs, atomic promotion and, but for
	// NoFences, durable fences, also of readers.
	SurvivesRestart, SurvivesFailover, SafeClockJump driver.Promise
	// MinTTL is the shortest lease, at most driver.MaxTTL, if Clock does not make a longer one
	// necessary. 0 means driver.MinTTL.
	MinTTL time.Duration
	// MaxName is the length of the longest name, at most driver.MaxName bytes. 0 means
	// driver.MaxName.
	MaxName int

	// Keys makes keys of names, if the service does not take every byte. The register gets the
	// keys, each behind Prefix, instead of the names.
	Keys *storekit.Escaping
	// Prefix is the beginning of all keys, at most half of MaxKey long.
	Prefix string
	// MaxKey is the length of the longest key in bytes, 0 or more. MaxName follows from it. 0 means
	// that the service sets no limit.
	MaxKey int
	// MaxData is the length of the longest value that the service takes, in bytes, and at least 64
	// KiB. 0 means that there is no limit. A request that would add another reader to a record
	// near this limit gets driver.ErrUnavailable, before the service refuses the Put. So a holder
	// can always renew and release.
	MaxData int
	// NoFences says that other programs share the locks and may delete a record, and the last fence
	// with it. The store then has no fences.
	NoFences bool
	// Notes are further conditions, one sentence each.
	Notes []string

	// Local is the clock of this process, for tests; nil means driver.SystemClock().
	Local driver.Clock
}

// maxSkew is the greatest Clock.Skew. Without an end, a typing error would keep names for days.
const maxSkew = time.Minute

// ownKey is the key of the record of the store, behind Prefix. It is the key of no name, since an
// Escaping writes two digits behind a percent sign.
const ownKey = "%padlock"

// key returns what stands for a name in calls of the register.
func (o *Options) key(name string) string {
	switch {
	case o.Keys == nil:
		return name
	case name == "":
		return o.Prefix + ownKey
	}
	return o.Prefix + o.Keys.Escape(name)
}

// name returns the name of a key. If another program has made the key, ok is false.
func (o *Options) name(key string) (name string, ok bool) {
	if o.Keys == nil {
		return key, key != ""
	}
	if key, ok = strings.CutPrefix(key, o.Prefix); !ok {
		return "", false
	}
	return o.Keys.Unescape(key)
}

func (o *Options) guarantees(r Register) driver.Guarantees {
	g := driver.Guarantees{
		Store: o.Name, Lease: true, Shared: true, CoolDown: true, Promotion: driver.PromotionAtomic,
		Fence: driver.FenceDurable, SharedFence: driver.PromiseYes, SafeEviction: driver.PromiseYes,
		SurvivesRestart: o.SurvivesRestart, SurvivesFailover: o.SurvivesFailover, SafeClockJump: o.SafeClockJump,
		MinTTL: o.MinTTL, MaxName: o.MaxName, Notes: o.Notes,
	}
	if o.MaxKey > 0 {
		g.MaxName = (o.MaxKey - len(o.Prefix)) / 3
	}
	if o.NoFences {
		g.Fence, g.SharedFence = driver.FenceNone, driver.PromiseNo
		g.Lacks |= driver.AbilityFenceRaiser
	}
	if _, ok := r.(Watcher); !ok {
		g.Lacks |= driver.AbilityWaiter
	}
	if _, ok := r.(Lister); !ok {
		g.Lacks |= driver.AbilityList
	}
	if o.Where == "" {
		g.Lacks |= driver.AbilitySamePlace
	}
	switch late := 2 * (o.Clock.Grain + o.Clock.Skew); {
	case o.Clock.Observed:
		g.Observed, g.SafeClockJump = true, driver.PromiseYes
		g.Notes = append(g.Notes, "There is no common clock: a process calls a lease ended when nobody has renewed it for its length.")
	case late > 0:
		g.MinTTL = max(driver.MinTTL, o.MinTTL, 5*late/2) // so that a late end is within two fifths of the TTL
		g.Notes = append(g.Notes, "A name can be taken up to "+late.String()+" after its lease has ended: the clock of the service is that coarse, or its front ends differ that much.")
	}
	return g
}
