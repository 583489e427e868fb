package doctor

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/padlock-go/padlock"
)

// unknownValue is what a store reports as the value of a setting that it could not read.
const unknownValue = "unknown"

// server checks the facts that the store's server reports about itself. It returns whether the
// server could be reached.
func (v *visit) server(ctx context.Context, l *padlock.Locker) bool {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	list, err := l.Status(ctx)
	switch {
	case errors.Is(err, errors.ErrUnsupported):
		return true // the store has no server
	case err != nil:
		v.unknown("server", "the server did not answer: "+plain(err), "its settings are unknown", "check that it runs, and try again")
		return false
	}
	var order []string
	nodes := map[string]node{}
	for _, f := range list {
		if f.Name == "mode" {
			v.mode = f.Value
		}
		at, name := "", f.Name
		if i := strings.LastIndexByte(f.Name, ' '); i >= 0 {
			at, name = f.Name[:i], f.Name[i+1:]
		}
		if nodes[at] == nil {
			nodes[at] = node{}
			order = append(order, at)
		}
		nodes[at][name] = f
	}
	own := v.of
	for _, at := range order {
		if at != "" {
			v.of = own + " at " + at
		}
		v.node(nodes[at], l.Guarantees())
		v.of = own
	}
	return true
}

// node contains the facts that one server reports about itself. The keys are the names of the
// facts.
type node map[string]padlock.Finding

func (v *visit) node(n node, g padlock.Guarantees) {
	if f, ok := n["run-id"]; ok && f.Value != unknownValue && f.Value != "" && v.runs != nil {
		v.runs[f.Value] = true
	}
	if f, ok := n["server"]; ok {
		v.reportFact(f, "version", f.Value, "old servers lack what the checks and the scripts need", "allow the user INFO")
	}
	if f, ok := n["role"]; ok && f.Advice != "" {
		v.problem("role", "the server is a replica", "other programs do not see its locks, and the primary overwrites them", f.Advice)
	}
	v.eviction(n)
	v.durability(n, g)
	v.failover(n)
	v.database(n)
}

// reportFact reports the value of a fact, or that the value is unknown.
func (v *visit) reportFact(f padlock.Finding, check, seen, why, do string) {
	if f.Value == unknownValue {
		v.unknown(check, "unknown", why, do)
		return
	}
	v.good(check, seen)
}

func (v *visit) eviction(n node) {
	policy, ok := n["maxmemory-policy"]
	if !ok {
		return
	}
	const why = "a server that runs out of memory drops locks that are held, and then two programs hold the same lock"
	limit := n["maxmemory"].Value
	switch {
	case policy.Value == unknownValue:
		v.unknown("eviction", "the policy could not be read", why, "allow the user INFO")
	case policy.Advice != "":
		v.problem("eviction", fmt.Sprintf("maxmemory-policy %s, maxmemory %s", policy.Value, limit), why,
			"set maxmemory-policy noeviction, or use a separate server for locks")
	case policy.Value != "noeviction":
		v.good("eviction", fmt.Sprintf("maxmemory-policy %s, but maxmemory %s, so nothing is dropped; set noeviction before you set a limit", policy.Value, limit))
	default:
		v.good("eviction", "maxmemory-policy noeviction")
	}
}

// durability checks which locks a restart loses, and whether a restart has just happened.
func (v *visit) durability(n node, g padlock.Guarantees) {
	f, ok := n["persistence"]
	if !ok {
		return
	}
	longest := g.MaxTTL
	durable := f.Value != unknownValue && f.Advice == ""
	wait := fmt.Sprintf("or, after a restart, start jobs that need locks only after the longest lease (%v)", longest)
	switch {
	case durable:
		v.good("persistence", f.Value)
	case f.Value == unknownValue || strings.Contains(f.Value, unknownValue):
		v.unknown("persistence", f.Value, "without persistence a restart of the server frees locks that are held", "allow the user INFO and CONFIG GET; "+wait)
	default:
		v.problem("persistence", f.Value, "a restart of the server frees locks that are held, and then two programs hold the same lock",
			"set appendonly yes and appendfsync always; "+wait)
	}
	v.guard(n, durable)
	v.uptime(n, durable, longest)
}

func (v *visit) guard(n node, durable bool) {
	f, ok := n["restart-guard"]
	known := n["known-before"]
	switch {
	case !ok || durable:
	case f.Value == "off":
		v.problem("restart-guard", "off (restart-guard=off)", "right after a restart the server grants locks under which others still work",
			"remove restart-guard=off from the URL")
	case known.Value == unknownValue:
		v.unknown("restart-guard", "the last known run of the server cannot be read: "+known.Advice, "after each start of the server, programs then get no locks until the longest lease has ended",
			"let the user read and write the directory of run-ids=")
	default:
		v.good("restart-guard", f.Value)
	}
}

func (v *visit) uptime(n node, durable bool, longest time.Duration) {
	f, ok := n["uptime"]
	if !ok || durable {
		return
	}
	up, err := time.ParseDuration(f.Value)
	switch {
	case err != nil:
		v.unknown("uptime", "unknown", "after a restart that lost locks, their holders may still be running", "allow the user INFO")
	case up < longest:
		v.problem("uptime", fmt.Sprintf("the server started %v ago, less than the longest lease (%v)", up, longest),
			"holders from before the restart may still be running, and the server may have lost their locks",
			fmt.Sprintf("wait for another %v before you start jobs that need locks; restart-guard=strict does that for you", longest-up))
	default:
		v.good("uptime", up.String())
	}
}

func (v *visit) failover(n node) {
	f, ok := n["connected-replicas"]
	several := v.mode == "sentinel" || v.mode == "cluster"
	if !ok {
		return
	}
	switch {
	case f.Value == unknownValue:
		v.unknown("failover", "it is unknown whether there are replicas", "a replica that takes over may lack locks that are held", "allow the user INFO")
	case f.Value != "0" || several:
		seen := f.Value + " replicas are connected"
		if several {
			seen = v.mode + ": replicas take over; connected now: " + f.Value
		}
		v.problem("failover", seen, "a replica that takes over may lack the newest locks, and then two programs hold the same lock",
			"use a server that is restarted and never replaced, or a quorum: of separate servers, and check fences where you write")
	default:
		v.good("failover", "no replicas, so none can take over")
	}
}
