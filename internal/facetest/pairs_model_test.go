package facetest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/safety"
	"github.com/padlock-go/padlock/stores/memstore"
)

// feature is a set of features that a call uses.
type feature int

const (
	useAcquire feature = 1 << iota
	useSlots
	useAll
	useShared
	useConvert
	useAtLeast
	useCoolDown
	useMaxHold
	useExport
	useDetached
	useElection
	useObserver
	allFeatures = 12
)

var featureNames = [allFeatures]string{
	"Acquire", "Slots", "AcquireAll", "Shared", "Promote, Demote", "HoldAtLeast", "CoolDown", "HoldAtMost",
	"Export, Adopt", "Detached", "election", "observer",
}

// fault is what may happen while a call is under way, or while its lock is held.
type fault int

const (
	lostRequest fault = iota // the request does not arrive, and the caller does not know that
	lateRequest              // the caller gets an error, and after that the request arrives
	lostReply                // the request has its effect, and the caller gets an error
	silence                  // neither requests nor replies arrive for a while
	refusal                  // the store is not available
	closing                  // the Locker is closed
	clockStep                // the machines were suspended
	shortWaits               // others wait for the same name for a short time, and give up
	allFaults
	noFault fault = -1
)

var faultNames = [allFaults]string{
	"lost request", "late request", "lost reply", "silence", "refusal", "Close", "clock step", "short waits",
}

// pairTable counts how often a fault has met a feature.
type pairTable [allFeatures][allFaults]int

// use is one call and the lock that it takes.
type use struct {
	id      int
	names   []string
	p       *process
	strikes int // how many faults there were before the call

	// Guarded by pairModel.mu.
	features feature
	stories  map[string]*story // by name; only with an observer
	waits    bool              // the call has not returned
	canceled bool              // the context of the call was cancelled
	cancel   context.CancelFunc
}

type useKey struct{}

// pairModel is one run of the model: a server, two processes, and what the model knows about them.
type pairModel struct {
	report func(format string, args ...any)
	kind   pairKind
	clock  *stepClock
	server *memstore.Store
	table  *pairTable
	late   int // the most microseconds by which a request comes after its caller has given it up

	mu         sync.Mutex
	random     *rand.Rand
	weather    [allFaults]int // how many of 100 requests have this fault
	strikes    int            // how many faults there were, without closing and shortWaits
	unsteady   int            // how many steps of the clock have happened so lately that timers are still late
	silent     time.Time      // until then, no request gets a reply
	stopped    bool           // there is no more trouble
	procs      []*process
	leavesSome bool         // a Locker was closed that may leave locks in the store until their leases end
	uses       map[int]*use // the calls under way, and those whose locks are held
	made       int
	tokens     map[string]*use
	holders    map[string][]*entry
	writer     map[string]uint64        // the highest fence of an exclusive holder
	highest    map[string]uint64        // the highest fence
	last       map[string]*padlock.Lock // the last exclusive holder
	history    map[string][]step        // the requests for each name
	taken      map[string]driver.Instant
}

// process is a Locker of the model.
type process struct {
	*padlock.Locker
	features feature
	closed   bool // Close has begun, or is about to begin; guarded by pairModel.mu
}

// entry is a lock that a caller works with.
type entry struct {
	*padlock.Lock
	u        *use
	robbed   bool // another caller has got the lock meanwhile
	exported bool // the caller has handed the lock over to another process
}

func (x *pairModel) n(n int) int {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.random.IntN(n)
}

// us is a random time of up to the given number of microseconds. It is a multiple of 500, so that
// many things happen at the same moment.
func (x *pairModel) us(most int) time.Duration {
	return time.Duration(x.n(most/500+1)) * 500 * time.Microsecond
}

func (x *pairModel) ms(most int) time.Duration {
	return time.Duration(x.n(most+1)) * time.Millisecond
}

// step is a request, or something else that a caller did.
type step struct {
	at    time.Duration
	what  string
	token string
	fault fault
	reply any
	err   error
}

// log notes a step for the case that a check fails.
func (x *pairModel) log(name string, s step) {
	x.mu.Lock()
	defer x.mu.Unlock()
	s.at = time.Since(x.clock.base)
	x.history[name] = append(x.history[name], s)
}

// past describes the last steps. The caller holds mu.
func (x *pairModel) past(name string) string {
	var b strings.Builder
	steps := x.history[name]
	for _, s := range steps[max(0, len(steps)-40):] {
		fmt.Fprintf(&b, "\n\t%10v %-14s %.6s fault %d: %+v %v", s.at, s.what, s.token, s.fault, s.reply, s.err)
	}
	return b.String()
}

// strike draws the fault of a request.
func (x *pairModel) strike(ctx context.Context, token string) fault {
	x.mu.Lock()
	defer x.mu.Unlock()
	u, _ := ctx.Value(useKey{}).(*use)
	if u != nil {
		x.tokens[token] = u
	} else {
		u = x.tokens[token]
	}
	if x.stopped {
		return noFault
	}
	f := noFault
	if time.Now().Before(x.silent) {
		f = silence
	} else {
		p := x.random.IntN(100)
		for i, weight := range x.weather {
			if p -= weight; p < 0 {
				f = fault(i)
				break
			}
		}
	}
	if f == noFault {
		return f
	}
	x.strikes++
	if u != nil {
		x.meet(u, f)
	}
	return f
}

// meet counts that a fault has hit a call or its lock. The caller holds mu.
func (x *pairModel) meet(u *use, f fault) {
	for i := range allFeatures {
		if u.features&(1<<i) != 0 {
			x.table[i][f]++
		}
	}
}

// meetAll counts that a fault has hit all calls and locks for which hit returns true.
func (x *pairModel) meetAll(f fault, hit func(*use) bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, u := range x.uses {
		if hit(u) {
			x.meet(u, f)
		}
	}
}

// begin notes that a call begins. The requests of the call have its context.
func (x *pairModel) begin(p *process, features feature, names ...string) (*use, context.Context) {
	ctx, cancel := context.WithCancel(context.Background())
	x.mu.Lock()
	defer x.mu.Unlock()
	x.made++
	u := &use{id: x.made, names: names, p: p, strikes: x.strikes, features: features | p.features, stories: map[string]*story{}, waits: true, cancel: cancel}
	if x.uses[u.id] = u; x.unsteady > 0 {
		u.strikes = -1
	}
	return u, context.WithValue(ctx, useKey{}, u)
}

func (x *pairModel) end(u *use) {
	x.mu.Lock()
	defer x.mu.Unlock()
	delete(x.uses, u.id)
	u.cancel()
}

// giveUp makes some of the callers that wait for a name give up at this moment.
func (x *pairModel) giveUp(name string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, u := range x.uses {
		if u.waits && slices.Contains(u.names, name) && x.random.IntN(8) == 0 {
			u.canceled = true
			u.cancel()
		}
	}
}

func (x *pairModel) adds(u *use, f feature) {
	x.mu.Lock()
	defer x.mu.Unlock()
	u.features |= f
}

// calmSince reports whether there was no fault since the call began.
func (x *pairModel) calmSince(u *use) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.strikes == u.strikes
}

// enter notes that a caller works with a lock. No other caller may do that at the same time.
func (x *pairModel) enter(k *padlock.Lock, u *use) *entry {
	x.checkBacked(k, u, "at its start")
	name, fence, shared := storedName(k), k.Fence(), k.Shared()
	x.mu.Lock()
	defer x.mu.Unlock()
	e := &entry{Lock: k, u: u}
	for _, other := range x.holders[name] {
		if shared && other.Shared() || k.Remaining() == 0 {
			continue
		}
		if other.robbed = true; other.Remaining() > 0 {
			x.report("%v", safety.ErrTwoHold("%q: %s and %s%s", name, other.describe(), e.describe(), x.past(name)))
		}
	}
	x.holders[name] = append(x.holders[name], e)
	if k.Remaining() == 0 {
		return e
	}
	same := x.last[name] == k && fence == x.highest[name] // the lock never became shared, because no Demote reached the store
	err := safety.FenceRises(fence, x.highest[name])
	if shared || same {
		err = safety.FenceKeeps(fence, x.writer[name])
	}
	if err != nil {
		x.report("%s: %v%s", e.describe(), err, x.past(name))
	}
	x.highest[name] = max(x.highest[name], fence)
	if !shared {
		x.writer[name], x.last[name] = max(x.writer[name], fence), k
	}
	return e
}

// leave notes that the caller does not rely on the lock any more.
func (x *pairModel) leave(e *entry) {
	x.checkBacked(e.Lock, e.u, "at its end")
	name := storedName(e.Lock)
	x.mu.Lock()
	x.holders[name] = slices.DeleteFunc(x.holders[name], func(other *entry) bool { return other == e })
	x.mu.Unlock()
	if e.Remaining() > 0 {
		return
	}
	select { // the context may end later than the lock, after a suspend
	case <-e.Context().Done():
	case <-time.After(2 * longestNap):
		x.report("%s is over, and its context has not ended", e.describe())
	}
}

// checkBacked checks that a lock whose holder thinks that it is held is held in the store too.
func (x *pairModel) checkBacked(k *padlock.Lock, u *use, when string) {
	name := storedName(k)
	if k.Remaining() == 0 {
		return
	}
	shared := k.Shared()
	state, err := x.server.Inspect(context.Background(), name)
	if err != nil || k.Remaining() == 0 || k.Shared() != shared {
		return // Close may just have released it
	}
	held, writers := 0, 0
	for _, h := range state.Holds {
		if h.Cooling {
			continue
		}
		if held++; !h.Shared {
			writers++
		}
	}
	if held == 0 || !shared && (held != 1 || writers != 1) || shared && writers > 0 && held > 1 {
		x.mu.Lock()
		defer x.mu.Unlock()
		x.report("%s: %s the store has %+v%s", (&entry{Lock: k, u: u}).describe(), when, state, x.past(name))
	}
}

// checkFree checks that a name that should stay taken has not got a new writer.
func (x *pairModel) checkFree(e *entry) {
	x.mu.Lock()
	defer x.mu.Unlock()
	now, until := x.clock.Now(), x.taken[storedName(e.Lock)]
	if now < until && !e.Shared() && e.Remaining() > 0 {
		x.report("%s: the name should stay taken for another %v%s", e.describe(), until.Sub(now), x.past(storedName(e.Lock)))
	}
}

// staysTaken notes that nobody may get the name before the given time.
func (x *pairModel) staysTaken(k *padlock.Lock, until driver.Instant) {
	name := storedName(k)
	x.mu.Lock()
	defer x.mu.Unlock()
	x.taken[name] = max(x.taken[name], until)
}

// forgetsAtLeast notes that e is exported: a release by its key forgets HoldAtLeast.
func (x *pairModel) forgetsAtLeast(e *entry) {
	x.mu.Lock()
	defer x.mu.Unlock()
	delete(x.taken, storedName(e.Lock))
}

// checkRelease checks the error of a release.
func (x *pairModel) checkRelease(e *entry, err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if err == nil && e.robbed && !e.u.p.closed {
		x.report("%s: another caller got the lock before the release, and the release says nothing%s", e.describe(), x.past(storedName(e.Lock)))
	}
	if err != nil && x.strikes == e.u.strikes && !e.u.p.closed && e.u.features&(useMaxHold|useExport) == 0 {
		x.report("%s: nothing has happened, and the release says: %v%s", e.describe(), err, x.past(storedName(e.Lock)))
	}
}

func (e *entry) describe() string {
	return fmt.Sprintf("call %d (%v) with fence %d, shared: %v, of %q", e.u.id, e.u.features, e.Fence(), e.Shared(), storedName(e.Lock))
}

func (f feature) String() string {
	var names []string
	for i, name := range featureNames {
		if f&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	return strings.Join(names, " + ")
}
