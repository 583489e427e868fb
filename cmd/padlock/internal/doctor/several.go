package doctor

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"

	"github.com/padlock-go/padlock/open"
)

// several examines a store made of others: each of them, and what they are
// together.
func (v *visit) several(ctx context.Context) ([]Finding, error) {
	members := v.u.Query()["store"]
	first := map[string]string{} // of each run id, the member that has it
	same := ""
	for _, m := range members {
		o := v.Options
		o.runs = map[string]bool{}
		o.Name += "-member" // the fences of the whole are not those of one
		found, err := Examine(ctx, m, o)
		if err != nil {
			return nil, err
		}
		v.found = append(v.found, found...)
		for id := range o.runs {
			if other, ok := first[id]; ok && same == "" {
				same = other + " and " + open.Redacted(m, v.Schemes)
			}
			first[id] = open.Redacted(m, v.Schemes)
		}
	}
	v.of = open.Redacted(v.raw, v.Schemes)
	if same != "" { // whatever their URLs say
		v.problem("members", same+" are one server", "one server then has two votes, and its loss counts twice", "name each server once")
	} else {
		v.members(members)
	}
	v.start(members)
	l, err := v.open(ctx)
	if l == nil {
		return v.found, err
	}
	defer v.close(l)
	v.works(ctx, l)
	return v.found, nil
}

// members looks at what a quorum is made of.
func (v *visit) members(members []string) {
	var places, machines []string
	for _, m := range members {
		p := placeOf(m, v.Schemes)
		u, host := p.u, "this machine"
		if len(p.servers) > 0 {
			host = p.servers[0]
		}
		if h, _, err := net.SplitHostPort(host); err == nil {
			host = h
		}
		places = append(places, u.Scheme+"://"+u.Host+strings.TrimSuffix(u.Path, "/"))
		machines = append(machines, host)
	}
	switch n := len(members); {
	case twice(places) != "":
		v.problem("members", twice(places)+" is a member twice", "one server then has two votes, and its loss counts twice", "name each server once")
		return
	case v.u.Scheme == "quorum" && n < 3:
		v.problem("members", fmt.Sprintf("%d members", n), "none may fail: every member is needed for a majority", "use 3 or 5 servers of their own")
	case v.u.Scheme == "quorum" && n%2 == 0:
		v.problem("members", fmt.Sprintf("%d members", n), fmt.Sprintf("as many may fail as of %d, and more can", n-1), fmt.Sprintf("use %d or %d", n-1, n+1))
	case twice(machines) != "":
		v.problem("members", "several members are on "+twice(machines), "they fail together, so the majority is lost with one machine", "put each on a machine of its own")
	default:
		v.good("members", fmt.Sprintf("%d, each on a machine of its own, as far as the URLs tell", n))
	}
}

// start looks at whether what uses the quorum can be started while a member is
// down.
func (v *visit) start(members []string) {
	for _, m := range members {
		if u := placeOf(m, v.Schemes).u; v.u.Scheme == "quorum" && u.Query().Get("lazy") == "no" {
			v.problem("start", open.Redacted(m, v.Schemes)+" has to be up when the store is opened",
				"while one member is down, padlock and programs that are started then have no locks, though a majority is up",
				"take lazy=no out of the URLs of the members")
			return
		}
	}
}

// twice returns what is in the list more than once, or "".
func twice(list []string) string {
	list = slices.Clone(list)
	slices.Sort(list)
	for i := 1; i < len(list); i++ {
		if list[i] == list[i-1] {
			return list[i]
		}
	}
	return ""
}
