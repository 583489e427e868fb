package drivertest

import (
	"fmt"
	"strings"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/driver/fast"
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
	fences    = promised("fences", func(g *driver.Guarantees) bool { return g.Fence != driver.FenceNone })
	oneFence  = promised("one fence for readers", func(g *driver.Guarantees) bool { return g.SharedFence == driver.PromiseYes })
	durable   = promised("durable fences", func(g *driver.Guarantees) bool { return g.Fence == driver.FenceDurable })
	promotes  = promised("promotion", func(g *driver.Guarantees) bool { return g.Promotion != driver.PromotionNone })
	fifo      = promised("FIFO", func(g *driver.Guarantees) bool { return g.FIFO })
	bound     = promised("holds bound to a connection or process", func(g *driver.Guarantees) bool { return g.Bound != driver.BoundToNothing })
	detaches  = promised("detached holds", func(g *driver.Guarantees) bool { return g.Detached && g.Bound != driver.BoundToNothing })
	connected = promised("holds bound to a connection", func(g *driver.Guarantees) bool { return g.Bound == driver.BoundToConnection })
	survives  = promised("surviving a restart", func(g *driver.Guarantees) bool { return g.SurvivesRestart == driver.PromiseYes })

	lapses = promised("leases, or detached holds", func(g *driver.Guarantees) bool { return g.Lease || g.Detached })

	repeatsRefused = promised("refused tokens that are not spent", func(g *driver.Guarantees) bool { return !g.RefusedIsSpent })

	inProcess = promised("waiting in the process", func(g *driver.Guarantees) bool { return g.InProcess })

	waits      = able("Waiter", driver.AbilityWaiter)
	takesSlots = able("SlotTaker", driver.AbilitySlotTaker)
	batches    = able("BatchExtender", driver.AbilityBatchExtender)

	passes   = able("Passer", driver.AbilityPasser)
	converts = able("Converter", driver.AbilityConverter)
	inspects = able("Inspect", driver.AbilityInspect)
	lists    = able("List", driver.AbilityList)
	breaks   = able("Break", driver.AbilityBreak)
	raises   = able("FenceRaiser", driver.AbilityFenceRaiser)
	files    = able("FileSharer", driver.AbilityFileSharer)
	reports  = able("Reporter", driver.AbilityReporter)
	records  = able("Recorder", driver.AbilityRecorder)
	places   = able("SamePlace", driver.AbilitySamePlace)

	locates    = need{what: "Location", met: func(r *run) bool { return implements[driver.Places](r.a) }}
	identifies = able("StoreID", driver.AbilityStoreID)

	replaces = promised("Replaces", func(g *driver.Guarantees) bool { return g.Bound == driver.BoundToNothing })

	restart   = hooked("Restart", func(h *Harness) bool { return h.Restart != nil })
	cut       = hooked("CutConnection", func(h *Harness) bool { return h.CutConnection != nil })
	loseReply = hooked("LoseReply", func(h *Harness) bool { return h.LoseReply != nil })
	pause     = hooked("Pause", func(h *Harness) bool { return h.Pause != nil })
	full      = hooked("Full", func(h *Harness) bool { return h.Full != nil })
	skewClock = hooked("SkewClock", func(h *Harness) bool { return h.SkewClock != nil })
	foreign   = hooked("Foreign", func(h *Harness) bool { return h.Foreign != nil })
	named     = need{what: "holders that others see", met: func(r *run) bool { return !r.h.Anonymous }}
)

func promised(what string, met func(*driver.Guarantees) bool) need {
	return need{what: what, met: func(r *run) bool { return met(&r.g) }}
}

func able(what string, a driver.Ability) need {
	return need{what: what, met: func(r *run) bool { return r.can(a) }}
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

// can reports whether the store has all of the abilities. The case guarantees/abilities checks that
// its Guarantees say the truth about those that it lacks.
func (r *run) can(a driver.Ability) bool {
	if r.g.Bound == driver.BoundToProcess && a&driver.AbilityBreak != 0 {
		return false // nobody else can end such a hold
	}
	return r.implemented&^r.g.Lacks&a == a
}

// abilities returns the optional interfaces that s implements.
func abilities(s driver.Store) (all driver.Ability) {
	for a, ok := range map[driver.Ability]bool{
		driver.AbilityWaiter:        implements[driver.Waiter](s),
		driver.AbilitySlotTaker:     implements[fast.SlotTaker](s),
		driver.AbilityBatchExtender: implements[fast.BatchExtender](s),
		driver.AbilityPasser:        implements[fast.Passer](s),
		driver.AbilityConverter:     implements[driver.Converter](s),
		driver.AbilityFenceRaiser:   implements[driver.FenceRaiser](s),
		driver.AbilityFileSharer:    implements[fast.FileSharer](s),
		driver.AbilityRecorder:      implements[fast.Recorder](s),
		driver.AbilityReporter:      implements[driver.Reporter](s),

		driver.AbilityInspect | driver.AbilityList | driver.AbilityBreak: implements[driver.Admin](s),
		driver.AbilityStoreID | driver.AbilitySamePlace:                  implements[driver.Places](s),
	} {
		if ok {
			all |= a
		}
	}
	return all
}

// summary describes the store, and lists what was not checked.
func (r *run) summary() string {
	var can, cannot, unchecked []string
	for _, n := range []need{leases, readers, coolDowns, waits, takesSlots, batches, passes, converts, inspects, lists, breaks, raises, files, reports, replaces, identifies, locates, places, records} {
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
		"has: %s\nhas not: %s\nnot checked without a hook: %s\nnot checked: %s",
		g.Store, r.ran, len(table), time.Since(r.started).Round(time.Millisecond),
		g.Bound, g.Fence, g.Promotion, g.FIFO, r.unit,
		list(can), list(cannot), list(unchecked), list(r.unproved()))
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
		if p != driver.PromiseNo && !checked {
			out = append(out, fmt.Sprintf("%s=%v", name, p))
		}
	}
	promise("SurvivesRestart", r.g.SurvivesRestart, r.h.Restart != nil)
	promise("SurvivesFailover", r.g.SurvivesFailover, false)
	promise("SafeClockJump", r.g.SafeClockJump, false)
	promise("SafeEviction", r.g.SafeEviction, false)
	promise("SharedFence", r.g.SharedFence, r.g.SharedFence == driver.PromiseYes)
	return out
}
