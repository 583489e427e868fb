package padlock

import (
	"context"
	"fmt"
	"hash/maphash"
	"log/slog"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/histogram"
)

// A Counter is an Observer that only counts events, such as the observer of package metrics. If a
// Counter is the only observer of a Locker, the Locker calls Tally.Count instead of Observe. That
// costs a tenth as much as the delivery of events. If the Locker has other observers too, it calls
// Observe for each of them, and also for the Counter.
type Counter interface {
	Observer

	// TallyOf returns the Tally for the locks on name in store. The Locker keeps the Tallies of
	// names that were used lately, so TallyOf must always return the same Tally for a name, or one
	// that adds to the same counts. Several goroutines may call TallyOf at the same time.
	TallyOf(store, name string) Tally
}

// A Tally counts the events of one name, or of several names.
type Tally interface {
	// Count counts one event. Many goroutines call it at the same time. The Locker may hold its
	// mutex during the call. So Count must not wait, must not use the Locker, and must not call
	// runtime.Goexit, which testing.T.FailNow does. If Count panics, the Locker logs the panic, and
	// the Counter gets no more events.
	Count(c Count)
}

// Count has the fields of an Event that a Tally needs. A Tally gets the same events as an Observer,
// with these differences:
//
//   - EventReleased and EventConverted are not counted.
//   - Mode is set only in EventAcquired, EventRefused and the events of a hold.
//   - EventAcquiring is counted when the Locker asks the store.
//   - EventReleasing is counted before the Locker releases the lock.
//
// For a store in this process, EventAcquiring and EventReleasing are counted at other times:
//
//   - EventAcquiring is counted only if the caller finds the name taken, together with
//     EventContended.
//   - EventReleasing is counted directly after the release.
type Count struct {
	Kind     EventKind
	Mode     Mode
	Outcome  Outcome
	HandOver HandOver
	Took     time.Duration
	Slack    time.Duration
	AtOnce   bool // in EventAcquired and EventRefused: no EventAcquiring was counted for this acquire
}

// If a Counter is the only observer of a Locker, the Locker counts each event at once and queues no
// events. Its eventQueues then serve only to find the Tally. All attempts and holds for one name
// share one eventQueue.
//
// EventAcquired is counted earlier than an Observer would get it: when the store grants the lock.
// But if the caller waits in the line, its goroutine counts EventAcquired when it runs again. Until
// then, hold.events is nil. If the hold ends before that, the goroutine counts the end directly
// after EventAcquired.
//
// EventReleasing is counted later if the store returns the time of a release. It is then counted
// after the release, with that time. So the Locker need not read the clock.

// tallies is a cache of the Tallies of names that were used lately. Its index is a hash of the
// name. Finding a Tally in the cache takes a fraction of the time of TallyOf.
type tallies struct {
	counter Counter // nil unless a Counter is the only observer
	seed    maphash.Seed
	recent  *[recentMost]atomic.Pointer[eventQueue] // the index is hash(name)
	release releaseWithTime                         // nil if the store does not return the time of a release
}

// A releaseWithTime releases a lock as the Release method of a store does, and also returns the
// time of the release.
type releaseWithTime func(ctx context.Context, name, token string, keep time.Duration) (driver.Outcome, driver.Instant, error)

// A releaseTimer is a store that can also return the time of a release. The Locker calls
// ReleaseTimed with its own store. If that store is a wrapper around the releaseTimer, ReleaseTimed
// returns nil. The Locker then calls the wrapper's Release, which may do more than the Release of
// the releaseTimer.
//
// The interface is not in package driver, because only a store in memory gains by it.
type releaseTimer interface {
	ReleaseTimed(driver.Store) func(ctx context.Context, name, token string, keep time.Duration) (driver.Outcome, driver.Instant, error)
}

// A histogramSource is a Tally whose histograms the Locker may use directly. Adding a time to a
// histogram is three times as fast as a call of Count. Only package metrics can implement this
// interface, because the type of the result is in an internal package.
type histogramSource interface {
	// HistogramFor returns the histogram of acquires for EventAcquired, and of holds for
	// EventReleasing. Count adds successful acquires and released holds to the same histograms.
	HistogramFor(kind EventKind, mode Mode) *histogram.Histogram
}

// histograms is a cache of the results of HistogramFor. An empty histogram must not appear in the
// figures. So HistogramFor is called only after Count has added a duration to the histogram.
// Locker.mu guards the cache.
type histograms struct {
	source histogramSource
	all    [2][2]*histogram.Histogram // the first index is 0 for EventAcquired, 1 for EventReleasing; the second is the Mode
}

// histogramFor returns the histogram to which the Locker may add a time. If it returns nil, the
// Locker must call Count. The caller holds mu.
func (n *eventQueue) histogramFor(kind EventKind, mode Mode) *histogram.Histogram {
	b := n.histograms
	switch {
	case b == nil || n.counter.failed.Load():
		return nil
	case kind == EventReleasing:
		return b.all[1][mode]
	}
	return b.all[0][mode]
}

// fetchHistogram gets a histogram from the histogramSource for later calls of histogramFor. It is
// called directly after the first Count for that histogram. The caller holds mu.
func (n *eventQueue) fetchHistogram(kind EventKind, mode Mode) {
	if b := n.histograms; b != nil {
		i := 0
		if kind == EventReleasing {
			i = 1
		}
		b.all[i][mode] = b.source.HistogramFor(kind, mode)
	}
}

// recentMost is the largest number of Tallies that a Locker keeps. It is the number of values that
// tallies.hash can return.
const recentMost = 256

func (t *tallies) init(store driver.Store, observers []*watcher) {
	if len(observers) != 1 {
		return
	}
	c, ok := observers[0].observer.(Counter)
	if !ok {
		return
	}
	*t = tallies{counter: c, seed: maphash.MakeSeed(), recent: new([recentMost]atomic.Pointer[eventQueue])}
	if s, ok := store.(releaseTimer); ok {
		t.release = s.ReleaseTimed(store)
	}
}

// tallyOf returns the eventQueue with the Tally for this name.
func (l *Locker) tallyOf(name string) *eventQueue {
	place := &l.tallies.recent[l.tallies.hash(name)]
	if n := place.Load(); n != nil && n.name == name {
		return n
	}
	show := l.shown.Load()
	n := l.newTally(name, show)
	place.Store(n)
	if l.shown.Load() != show { // ShowNames may have emptied the cache just before place.Store
		place.CompareAndSwap(n, nil)
	}
	return n
}

// hash returns the index of a name in the cache. For names of usual length, hash uses a simple hash
// function, because maphash takes longer: a quarter of the time that a Counter costs.
//
// The simple hash is the sum of three products: one each for the first, the middle and the last
// eight bytes. Together they cover every byte of the name.
func (t *tallies) hash(name string) uint8 {
	n := len(name)
	if n < 8 || n > 24 {
		return uint8(maphash.String(t.seed, name))
	}
	h := wordOf(name)*0x9e3779b97f4a7c15 + wordOf(name[n/2-4:])*0xc2b2ae3d27d4eb4f + wordOf(name[n-8:])*0x165667b19e3779f9
	return uint8(h >> 56)
}

// wordOf returns the first eight bytes of s as a number.
func wordOf(s string) uint64 {
	_ = s[7]
	return uint64(s[0]) | uint64(s[1])<<8 | uint64(s[2])<<16 | uint64(s[3])<<24 |
		uint64(s[4])<<32 | uint64(s[5])<<40 | uint64(s[6])<<48 | uint64(s[7])<<56
}

func (l *Locker) newTally(name string, show *func(string) string) *eventQueue {
	w := l.cfg.observers[0]
	n := &eventQueue{l: l, name: name, counter: w}
	shown := withoutSlot(name)
	if show != nil {
		shown = (*show)(shown)
	}
	defer w.recovered(l)
	n.tally = noTally{}
	if t := l.tallies.counter.TallyOf(l.guarantees.Store, shown); t != nil {
		n.tally = t
		if source, ok := t.(histogramSource); ok {
			n.histograms = &histograms{source: source}
		}
	}
	return n
}

// forgetTallies empties the cache. ShowNames calls it, because ShowNames changes the names with
// which TallyOf is called.
func (l *Locker) forgetTallies() {
	if l.tallies.counter == nil {
		return
	}
	for i := range l.tallies.recent {
		l.tallies.recent[i].Store(nil)
	}
}

// noTally counts nothing. It replaces the Tally if TallyOf panicked or returned nil.
type noTally struct{}

func (noTally) Count(Count) {}

// counts reports whether n counts events instead of queueing them. n may be nil.
func (n *eventQueue) counts() bool { return n != nil && n.tally != nil }

// count counts one event. n must have a tally.
func (n *eventQueue) count(c Count) {
	if n.counter.failed.Load() {
		return
	}
	returned := false
	defer func() {
		if !returned { // recover is not called each time, because that costs as much as a Count
			n.panicked(recover())
		}
	}()
	n.tally.Count(c)
	returned = true
}

// panicked is called after Count has panicked. The caller may hold mu. The log is written by
// another goroutine, because the log handler may use the Locker and so wait for mu.
func (n *eventQueue) panicked(p any) {
	if p != nil && !n.counter.failed.Swap(true) {
		go n.counter.logPanic(n.l, p, string(debug.Stack()))
	}
}

// countPending counts EventAcquiring, and reports whether it did. n may be nil.
func (n *eventQueue) countPending() bool {
	if !n.counts() {
		return false
	}
	n.count(Count{Kind: EventAcquiring})
	return true
}

// countEvent counts e. It ignores the kinds of events that a Counter does not count.
func (n *eventQueue) countEvent(e *Event) {
	if e.Kind != EventReleased && e.Kind != EventConverted {
		n.count(Count{Kind: e.Kind, Mode: e.Mode, Outcome: e.Outcome, HandOver: e.HandOver, Took: e.Took, Slack: e.Slack})
	}
}

// recovered must be deferred. If the observer panics, recovered logs that, and the observer gets no
// more events.
func (w *watcher) recovered(l *Locker) {
	if p := recover(); p != nil && !w.failed.Swap(true) {
		w.logPanic(l, p, string(debug.Stack()))
	}
}

func (w *watcher) logPanic(l *Locker, p any, stack string) {
	l.panicLog().Error("padlock: an observer panicked and gets no more events",
		"observer", fmt.Sprintf("%T", w.observer), "panic", fmt.Sprint(p), "stack", stack)
}

// panicLog returns the log to which the panic of an observer is written.
func (l *Locker) panicLog() *slog.Logger {
	for _, w := range l.cfg.observers {
		if w.log != nil {
			return w.log
		}
	}
	return slog.Default()
}
