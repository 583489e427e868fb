package doctor

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/padlock-go/padlock"
)

// unknownValue is what a store says for what it could not read.
const unknownValue = "unknown"

// server looks at what the store's server says of itself, and tells whether it
// was reached.
func (v *visit) server(ctx context.Context, l *padlock.Locker) bool {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	list, err := l.Status(ctx)
	switch {
	case errors.Is(err, errors.ErrUnsupported):
		return true // it has no server
	case err != nil:
		v.unknown("server", "it could not be asked: "+plain(err), "nothing is known of its settings", "see whether it runs, and ask again")
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

// node is what one server says, by name.
type node map[string]padlock.Finding

func (v *visit) node(n node, g padlock.Guarantees) {
	if f, ok := n["run-id"]; ok && f.Value != unknownValue && f.Value != "" && v.runs != nil {
		v.runs[f.Value] = true
	}
	if f, ok := n["server"]; ok {
		v.said(f, "version", f.Value, "old servers lack what the checks and the scripts need", "allow the user INFO")
	}
	if f, ok := n["role"]; ok && f.Advice != "" {
		v.problem("role", "the server is a replica", "a lock there is seen by nobody else, and is gone when the primary writes", f.Advice)
	}
	v.eviction(n)
	v.durability(n, g)
	v.failover(n)
}

// said reports a value, or that it is not known.
func (v *visit) said(f padlock.Finding, check, seen, why, do string) {
	if f.Value == unknownValue {
		v.unknown(check, "it could not be read", why, do)
		return
	}
	v.good(check, seen)
}

func (v *visit) eviction(n node) {
	policy, ok := n["maxmemory-policy"]
	if !ok {
		return
	}
	const why = "a server that runs out of memory drops locks that are held, and then two have the same lock"
	limit := n["maxmemory"].Value
	switch {
	case policy.Value == unknownValue:
		v.unknown("eviction", "the policy could not be read", why, "allow the user INFO")
	case policy.Advice != "":
		v.problem("eviction", fmt.Sprintf("maxmemory-policy %s, maxmemory %s", policy.Value, limit), why,
			"set maxmemory-policy noeviction, or give locks a server of their own, apart from caches")
	case policy.Value != "noeviction":
		v.good("eviction", fmt.Sprintf("maxmemory-policy %s, but maxmemory %s: nothing is dropped; set noeviction before you set a limit", policy.Value, limit))
	default:
		v.good("eviction", "maxmemory-policy noeviction")
	}
}

// durability looks at what a restart takes away, and whether one has just been.
func (v *visit) durability(n node, g padlock.Guarantees) {
	f, ok := n["persistence"]
	if !ok {
		return
	}
	longest := g.MaxTTL
	durable := f.Value != unknownValue && f.Advice == ""
	wait := fmt.Sprintf("or, when it has restarted, start what needs locks only after the longest lease (%v)", longest)
	switch {
	case durable:
		v.good("persistence", f.Value)
	case f.Value == unknownValue || strings.Contains(f.Value, unknownValue):
		v.unknown("persistence", f.Value, "without it a restart of the server frees locks that are held", "allow the user INFO and CONFIG GET; "+wait)
	default:
		v.problem("persistence", f.Value, "a restart of the server frees locks that are held, and then two have the same lock",
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
		v.problem("restart-guard", "off (restart-guard=off)", "right after a restart locks are given that others still work under",
			"take restart-guard=off out of the URL")
	case known.Value == unknownValue:
		v.unknown("restart-guard", "which run of the server was seen last cannot be remembered: "+known.Advice, "without that, a program that was started after a restart of the server does not know of it",
			"make the directory of run-ids= writable, or set restart-guard=strict")
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
		v.unknown("uptime", "it could not be read", "after a restart that lost locks, their holders may still be at work", "allow the user INFO")
	case up < longest:
		v.problem("uptime", fmt.Sprintf("the server has been up for %v, less than the longest lease (%v)", up, longest),
			"holders of locks from before, which it may have lost, may still be at work",
			fmt.Sprintf("wait for another %v before you start what needs locks; restart-guard=strict does that for you", longest-up))
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
		v.unknown("failover", "whether there are replicas could not be read", "one that takes over may lack locks that are held", "allow the user INFO")
	case f.Value != "0" || several:
		do := "use a server that is restarted, not replaced, or a quorum: of servers of their own, and check fences where you write"
		if v.u.Query().Get("replicas") == "" {
			do += "; replicas=N in the URL makes the loss less likely"
		}
		seen := f.Value + " replicas are connected"
		if several {
			seen = v.mode + ": replicas take over; connected now: " + f.Value
		}
		v.problem("failover", seen, "a replica that takes over lacks the locks of the last moment, and then two have the same lock", do)
	default:
		v.good("failover", "no replicas, so none can take over")
	}
}
