package drivertest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/padlock-go/padlock/driver"
)

// need is a condition under which a case makes sense.
type need struct {
	what string
	met  func(*run) bool
	hook bool // the user of the suite can meet the need by setting a hook of Harness
}

var (
	leases    = promised("leases", func(g *driver.Guarantees) bool { return g.Lease })
	readers   = promised("shared mode", func(g *driver.Guarantees) bool { return g.Shared })
	coolDowns = promised("cool-downs", func(g *driver.Guarantees) bool { return g.CoolDown })
	fences    = promised("fences", func(g *driver.Guarantees) bool { return g.Fence != driver.NoFence })
	oneFence  = promised("one fence for readers", func(g *driver.Guarantees) bool { return g.SharedFence == driver.Yes })
	durable   = promised("durable fences", func(g *driver.Guarantees) bool { return g.Fence == driver.DurableFence })
	promotes  = promised("promotion", func(g *driver.Guarantees) bool { return g.Promotion != driver.NoPromotion })
	fifo      = promised("FIFO", func(g *driver.Guarantees) bool { return g.FIFO })
	bound     = promised("holds bound to a connection or process", func(g *driver.Guarantees) bool { return g.Bound != driver.ToNothing })
	detaches  = promised("detached holds", func(g *driver.Guarantees) bool { return g.Detached && g.Bound != driver.ToNothing })
	connected = promised("holds bound to a connection", func(g *driver.Guarantees) bool { return g.Bound == driver.ToConnection })
	survives  = promised("surviving a restart", func(g *driver.Guarantees) bool { return g.SurvivesRestart == driver.Yes })

	inProcess = promised("waiting in the process", func(g *driver.Guarantees) bool { return g.InProcess })

	waits      = able("Waiter", func(a *abilities) bool { return a.wait })
	takesSlots = able("SlotTaker", func(a *abilities) bool { return a.takeSlot })
	batches    = able("BatchExtender", func(a *abilities) bool { return a.batch })

	passes   = able("Passer", func(a *abilities) bool { return a.pass })
	queues   = able("QueuePasser", func(a *abilities) bool { return a.queue })
	converts = able("Converter", func(a *abilities) bool { return a.convert })
	inspects = able("Inspector", func(a *abilities) bool { return a.inspect })
	lists    = able("Lister", func(a *abilities) bool { return a.list })
	breaks   = able("Breaker", func(a *abilities) bool { return a.breaks })
	raises   = able("FenceRaiser", func(a *abilities) bool { return a.raise })
	files    = able("FileSharer", func(a *abilities) bool { return a.file })
	reports  = able("Reporter", func(a *abilities) bool { return a.report })
	records  = able("Recorder", func(a *abilities) bool { return a.record })
	places   = able("SamePlacer", func(a *abilities) bool { return a.place })

	locates    = able("Locator", func(a *abilities) bool { return a.locate })
	identifies = able("Identifier", func(a *abilities) bool { return a.identify })

	replaces = able("Replaces", func(a *abilities) bool { return a.replace })

	restart   = hooked("Restart", func(h *Harness) bool { return h.Restart != nil })
	cut       = hooked("CutConnection", func(h *Harness) bool { return h.CutConnection != nil })
	loseReply = hooked("LoseReply", func(h *Harness) bool { return h.LoseReply != nil })
	pause     = hooked("Pause", func(h *Harness) bool { return h.Pause != nil })
	full      = hooked("Full", func(h *Harness) bool { return h.Full != nil })
	foreign   = hooked("Foreign", func(h *Harness) bool { return h.Foreign != nil })
	named     = need{what: "holders that others see", met: func(r *run) bool { return !r.h.Anonymous }}
)

func promised(what string, met func(*driver.Guarantees) bool) need {
	return need{what: what, met: func(r *run) bool { return met(&r.g) }}
}

func able(what string, met func(*abilities) bool) need {
	return need{what: what, met: func(r *run) bool { return met(&r.has) }}
}

func hooked(what string, met func(*Harness) bool) need {
	return need{what: "Harness." + what, met: func(r *run) bool { return met(&r.h) }, hook: true}
}

func not(n need) need {
	return need{what: "no " + n.what, met: func(r *run) bool { return !n.met(r) }}
}

// missing returns the needs of a case that are not met.
func (r *run) missing(k *testCase) (out []need) {
	for _, n := range k.needs {
		if !n.met(r) {
			out = append(out, n)
		}
	}
	return out
}

// abilities says which optional interfaces a store has. If the method of an interface returns
// errors.ErrUnsupported, the store does not have the interface.
type abilities struct {
	wait, pass, queue, convert, inspect, list, breaks, raise, file, report, replace, identify, place, locate, record, takeSlot, batch bool
}

// probe finds out the abilities of the store. It calls the method of each optional interface. Only
// errors.ErrUnsupported means that the ability is missing. probe ignores all other errors, because
// the test cases report them later.
func (r *run) probe() (has abilities) {
	ctx, cancel := context.WithTimeout(context.Background(), r.patience)
	defer cancel()
	afterwards, cancel := context.WithTimeout(context.Background(), r.patience+driver.MaxSilence)
	defer cancel()
	s, name := r.a, r.uniqueStem()+"probe"
	q := driver.Request{Name: name, Token: newToken(), TTL: r.long(), Shared: r.g.Shared}
	if w, ok := driver.As[driver.Waiter](s); ok {
		_, err := w.Wait(ctx, q, false)
		has.wait = supported(err)
		s.Release(ctx, name, q.Token, 0)
	}
	swap := q
	swap.Token, swap.Replaces = newToken(), newToken()
	_, err := s.Acquire(ctx, swap)
	has.replace = supported(err)
	if v, ok := driver.As[driver.Passer](s); ok {
		next := q
		next.Token, next.Shared = newToken(), false
		_, _, err := v.Pass(ctx, newToken(), next)
		has.pass = supported(err)
	}
	if v, ok := driver.As[driver.QueuePasser](s); ok {
		next := q
		next.Token, next.Shared = newToken(), false
		_, _, _, err := v.PassOrQueue(ctx, newToken(), next)
		has.queue = supported(err)
	}
	r.probeSlots(ctx, afterwards, &has, q)
	if v, ok := driver.As[driver.BatchExtender](r.a); ok {
		_, err := v.ExtendBatch(ctx, []driver.Extension{{Name: name, Token: q.Token}})
		has.batch = supported(err)
	}
	s.Acquire(ctx, q)
	defer s.Release(afterwards, name, q.Token, 0)
	r.probeHeld(ctx, &has, q)
	return has
}

func (r *run) probeSlots(ctx, afterwards context.Context, has *abilities, q driver.Request) {
	q.Shared = false
	if v, ok := driver.As[driver.SlotTaker](r.a); ok {
		slot, _, err := v.AcquireSlot(ctx, q, 1, true)
		if has.takeSlot = supported(err); err == nil {
			defer r.a.Release(afterwards, driver.SlotName(q.Name, slot), q.Token, 0)
		}
	}
}

func (r *run) probeHeld(ctx context.Context, has *abilities, q driver.Request) {
	if v, ok := driver.As[driver.Converter](r.a); ok {
		_, err := v.Convert(ctx, q)
		has.convert = supported(err)
	}
	if v, ok := driver.As[driver.Inspector](r.a); ok {
		_, err := v.Inspect(ctx, q.Name)
		has.inspect = supported(err)
	}
	if v, ok := driver.As[driver.Lister](r.a); ok {
		_, err := v.List(ctx, q.Name)
		has.list = supported(err)
	}
	if v, ok := driver.As[driver.Breaker](r.a); ok {
		_, err := v.Break(ctx, q.Name, driver.MaxFence-1)
		has.breaks = supported(err)
	}
	if v, ok := driver.As[driver.FenceRaiser](r.a); ok {
		has.raise = supported(v.RaiseFence(ctx, q.Name, q.Token, 1))
	}
	if v, ok := driver.As[driver.Reporter](r.a); ok {
		_, err := v.Status(ctx)
		has.report = supported(err)
	}
	if v, ok := driver.As[driver.Identifier](r.a); ok {
		_, err := v.StoreID(ctx)
		has.identify = supported(err)
	}
	if v, ok := driver.As[driver.Locator](r.a); ok {
		_, err := v.Location(q.Name)
		has.locate = supported(err)
	}
	if v, ok := driver.As[driver.Recorder](r.a); ok {
		_, err := v.Records(ctx, q.Name)
		has.record = supported(err)
	}
	_, has.place = driver.As[driver.SamePlacer](r.a)
	if v, ok := driver.As[driver.FileSharer](r.a); ok {
		f, err := v.File(q.Name, q.Token)
		has.file = supported(err)
		if err == nil {
			f.Close()
		}
	}
}

func supported(err error) bool { return !errors.Is(err, errors.ErrUnsupported) }

// summary describes the store, and lists what was not checked.
func (r *run) summary() string {
	var can, cannot, unchecked []string
	for _, n := range []need{leases, readers, coolDowns, waits, takesSlots, batches, passes, queues, converts, inspects, lists, breaks, raises, files, reports, replaces, identifies, locates, places, records} {
		if n.met(r) {
			can = append(can, n.what)
		} else {
			cannot = append(cannot, n.what)
		}
	}
	for i := range table {
		if m := r.missing(&table[i]); len(m) == 1 && m[0].hook {
			unchecked = append(unchecked, table[i].name+" (needs "+m[0].what+")")
		}
	}
	g := &r.g
	return fmt.Sprintf("store %q: %d of %d cases ran in %v\n"+
		"bound to %v, fences %v, promotion %v, FIFO %v, smallest lease %v\n"+
		"has: %s\nhas not: %s\nnot checked without a hook: %s\nnot checked: %s\nran again on a slow machine: %s",
		g.Store, r.ran, len(table), time.Since(r.started).Round(time.Millisecond),
		g.Bound, g.Fence, g.Promotion, g.FIFO, r.unit,
		list(can), list(cannot), list(unchecked), list(r.unproved()), r.repeats())
}

// repeats says how many attempts did not count, and of which cases.
func (r *run) repeats() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	cases := slices.Compact(slices.Sorted(slices.Values(r.again)))
	if len(cases) == 0 {
		return list(nil)
	}
	return fmt.Sprintf("%d times (%s)", len(r.again), list(cases))
}

func list(words []string) string {
	if len(words) == 0 {
		return "nothing"
	}
	return strings.Join(words, ", ")
}

// unproved lists the promises that no case could check.
func (r *run) unproved() (out []string) {
	promise := func(name string, p driver.Promise, checked bool) {
		if p != driver.No && !checked {
			out = append(out, fmt.Sprintf("%s=%v", name, p))
		}
	}
	promise("SurvivesRestart", r.g.SurvivesRestart, r.h.Restart != nil)
	promise("SurvivesFailover", r.g.SurvivesFailover, false)
	promise("SafeClockJump", r.g.SafeClockJump, false)
	promise("SafeEviction", r.g.SafeEviction, false)
	promise("SharedFence", r.g.SharedFence, r.g.SharedFence == driver.Yes)
	return out
}
