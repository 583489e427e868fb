package doctor

import (
	"fmt"
	"net"
	"slices"
	"strings"

	"github.com/padlock-go/padlock/open"
)

// members checks the members of a quorum.
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
	case findRepeated(places) != "":
		v.problem("members", findRepeated(places)+" is a member twice", "one server then has two votes, and its loss counts twice", "name each server once")
		return
	case v.u.Scheme == "quorum" && n < 3:
		v.problem("members", fmt.Sprintf("%d members", n), "no member may fail, because all are needed for a majority", "use 3 or 5 separate servers")
	case v.u.Scheme == "quorum" && n%2 == 0:
		v.problem("members", fmt.Sprintf("%d members", n), fmt.Sprintf("no more members may fail than with %d, and one more can fail", n-1), fmt.Sprintf("use %d or %d", n-1, n+1))
	case findRepeated(machines) != "":
		v.problem("members", "several members are on "+findRepeated(machines), "they fail together, so one machine can take the majority with it", "put each on a machine of its own")
	default:
		v.good("members", fmt.Sprintf("%d members, each on a machine of its own, according to the URLs", n))
	}
}

// checkStart checks whether programs can start while a member of the quorum is down.
func (v *visit) checkStart(members []string) {
	for _, m := range members {
		if u := placeOf(m, v.Schemes).u; v.u.Scheme == "quorum" && u.Query().Get("lazy") == "no" {
			v.problem("start", open.Redacted(m, v.Schemes)+" must be up when the store is opened (lazy=no)",
				"while this member is down, programs that start cannot open the store, even if a majority is up",
				"remove lazy=no from the URLs of the members")
			return
		}
	}
}

// findRepeated returns a string that is in the list more than once, or "".
func findRepeated(list []string) string {
	list = slices.Clone(list)
	slices.Sort(list)
	for i := 1; i < len(list); i++ {
		if list[i] == list[i-1] {
			return list[i]
		}
	}
	return ""
}
