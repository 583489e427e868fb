package soak

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
)

// Classes of faults: the columns of the table of pairs.
const (
	LostRequest = "lost request" // the request has no effect
	LostReply   = "lost reply"   // the request has its effect, and nobody learns of it
	Silence     = "silence"      // the server does not answer for a while
	Kill        = "kill"
	Stop        = "stop"
	Restart     = "restart" // of a server
	ClockStep   = "clock step"
	ShortWaits  = "short waits" // one goroutine of the process waits for long, and others give up soon
)

// Features of padlock: the rows of the table of pairs.
const (
	plain      = "Acquire"
	slots      = "Slots"
	several    = "AcquireAll"
	sharedLock = "Shared"
	conversion = "Promote and Demote"
	atLeast    = "HoldAtLeast"
	coolDown   = "CoolDown"
	maxHold    = "HoldAtMost"
	handOff    = "Export and Adopt"
	detached   = "Detached"
	leading    = "election"
	observed   = "observer"
	// CheckTx and LockTx are used by programs of their own, which log them as Used.
	CheckTx = "CheckTx"
	LockTx  = "LockTx"
)

var (
	// Features are all features of the table of pairs.
	Features = []string{plain, slots, several, sharedLock, conversion, atLeast, coolDown, maxHold, handOff, detached, leading, observed, CheckTx, LockTx}
	// Classes are all classes of faults.
	Classes = []string{LostRequest, LostReply, Silence, Kill, Stop, Restart, ClockStep, ShortWaits}
)

// Pair is a feature that was in use while a fault of the class was at work.
type Pair struct{ Feature, Class string }

// with returns the features of an acquire, for Event.With.
func (w *worker) with(t *turn) string {
	var list []string
	add := func(uses bool, feature string) {
		if uses {
			list = append(list, feature)
		}
	}
	add(!t.shared && !t.several && t.slots == 0, plain)
	add(t.slots > 0, slots)
	add(t.several, several)
	add(t.shared, sharedLock)
	add(t.atLeast > 0, atLeast)
	add(t.limit > 0, maxHold)
	add(t.detached, detached)
	add(w.observed, observed)
	return strings.Join(list, ",")
}

// use is a time in which a worker used a feature. It is either a call, or the time from the acquire
// of a lock to its release.
type use struct {
	feature  string
	worker   int
	from, to int64
	call     bool
}

// Pairs counts how often each pair met. A fault of the network or of a server meets the calls of a
// feature that were under way. A fault of a worker's process, and short waits during a long one,
// meet the locks that the process held or waited for. So does a step of the server's clock, which
// changes when the leases end.
func Pairs(events []Event) map[Pair]int {
	met := map[Pair]int{}
	faults := faultsByClass(events)
	for _, u := range uses(events) {
		for _, class := range Classes {
			ofLocks := class == Kill || class == Stop || class == ShortWaits || class == ClockStep
			if ofLocks == u.call && u.feature != leading {
				continue
			}
			if at := faults[class]; at[everyWorker].timeBetween(u.from, u.to)+at[u.worker].timeBetween(u.from, u.to) > 0 {
				met[Pair{u.feature, class}]++
			}
		}
	}
	return met
}

// everyWorker stands for all workers.
const everyWorker = -1

// faultsByClass returns when faults of each class hit each worker.
func faultsByClass(events []Event) map[string]map[int]spells {
	faults := map[string]map[int]spells{}
	for _, class := range Classes {
		faults[class] = map[int]spells{}
	}
	long := map[int]spells{}
	for _, e := range events {
		switch short := e.Waited && e.Op == Refused && e.At-e.Call < int64(2*maxShort); {
		case e.Op == Faulted && e.Class != "":
			at := faults[e.Class]
			at[e.Hit-1] = append(at[e.Hit-1], [2]int64{e.Call, e.At})
		case short:
			faults[ShortWaits][e.Worker] = append(faults[ShortWaits][e.Worker], [2]int64{e.Call, e.At})
		case e.Waited:
			long[e.Worker] = append(long[e.Worker], [2]int64{e.Call, e.At})
		}
	}
	for _, at := range faults {
		for worker, times := range at {
			at[worker] = times.merged()
		}
	}
	for worker, times := range faults[ShortWaits] {
		waits := long[worker].merged()
		faults[ShortWaits][worker] = slices.DeleteFunc(times, func(x [2]int64) bool { return waits.timeBetween(x[0], x[1]) == 0 })
	}
	return faults
}

// uses lists what the workers used, and when.
func uses(events []Event) (list []use) {
	add := func(features string, worker int, from, to int64, call bool) {
		for feature := range strings.SplitSeq(features, ",") {
			if feature != "" {
				list = append(list, use{feature, worker, from, to, call})
			}
		}
	}
	for _, h := range Holds(events) {
		first := h.Events[0]
		to := max(h.Events[len(h.Events)-1].At, h.died)
		add(first.With, h.Worker, first.Call, to, false)
		for _, e := range h.Events {
			if e.Call != 0 {
				add(first.With, h.Worker, e.Call, e.At, true)
			}
			add(e.own(), h.Worker, first.Call, to, false)
			add(e.own(), h.Worker, cmp.Or(e.Call, e.At), e.At, true)
		}
	}
	for _, e := range events {
		switch e.Op {
		case Refused, Used:
			add(e.With, e.Worker, e.Call, e.At, true)
			add(e.With, e.Worker, e.Call, e.At, false)
		case Led:
			add(leading, e.Worker, e.Call, e.At+int64(leadLook), true) // a leader that is killed logs nothing about its last moments
		}
	}
	return list
}

// own returns the feature that the event's own call uses, or "".
func (e *Event) own() string {
	switch {
	case e.Op == Promoted, e.Op == Demoted, e.Op == Begun && e.Err == string(Demoted):
		return conversion
	case e.Op == Exported, e.Op == Adopted:
		return handOff
	case e.Keep > 0 && (e.Op == Released || e.Op == Begun):
		return coolDown
	}
	return ""
}

// WritePairs prints the table of pairs. An empty cell shows the number of its reason.
func WritePairs(w io.Writer, met map[Pair]int, reasons []Reason) {
	fmt.Fprintf(w, "%-18s", "")
	for _, class := range Classes {
		fmt.Fprintf(w, " %12s", class)
	}
	fmt.Fprintln(w)
	for _, feature := range Features {
		fmt.Fprintf(w, "%-18s", feature)
		for _, class := range Classes {
			cell := fmt.Sprint(met[Pair{feature, class}])
			if cell == "0" {
				cell = "none"
				if i := slices.IndexFunc(reasons, func(r Reason) bool { return r.explains(Pair{feature, class}) }); i >= 0 {
					cell = fmt.Sprintf("none (%d)", i+1)
				}
			}
			fmt.Fprintf(w, " %12s", cell)
		}
		fmt.Fprintln(w)
	}
	for i, r := range reasons {
		fmt.Fprintf(w, "(%d) %s\n", i+1, r.Why)
	}
}

// Reason says why some pairs do not meet.
type Reason struct {
	Feature string   // "" stands for every feature
	Classes []string // empty stands for every class
	Why     string
}

func (r Reason) explains(p Pair) bool {
	return (r.Feature == "" || r.Feature == p.Feature) && (len(r.Classes) == 0 || slices.Contains(r.Classes, p.Class))
}

// Unmet lists the pairs that did not meet although there is no reason.
func Unmet(met map[Pair]int, reasons []Reason) (list []Pair) {
	for _, feature := range Features {
		for _, class := range Classes {
			p := Pair{feature, class}
			if met[p] == 0 && !slices.ContainsFunc(reasons, func(r Reason) bool { return r.explains(p) }) {
				list = append(list, p)
			}
		}
	}
	return list
}
