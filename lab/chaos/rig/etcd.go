package rig

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"time"

	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/lab/soak"
)

// etcdMembers starts a cluster of three members of etcd, in which the workers of a row take their
// locks. Each worker reaches each member through its own proxy.
func etcdMembers(s *Site) *setup {
	servers := server.EtcdCluster(&s.host, 3, nil)
	set := s.through(servers, joined("etcd://", "/soak/"))
	set.faults = append(set.faults, etcdFaults(servers, etcdTarget)...)
	return set
}

// etcdFaults returns faults that hit one member at a time, so that the other members are a
// majority. The member may be the leader. The grace of the faults is long because an election takes
// half a second to a second, and because a restarted member has to catch up.
func etcdFaults(servers []*server.Server, target string) []soak.Fault {
	return oneAtATime(target, append(faultsOf(servers, 8*time.Second, etcdHits...), noSpace(servers)))
}

// etcdTarget is the target of all faults of a cluster.
const etcdTarget = "a member of etcd"

var etcdHits = []hit{
	{"member killed", 1, time.Second, (*server.Server).Kill, func(m *server.Server) { m.Restart(true) }},
	{"member stopped", 1, 3 * time.Second, (*server.Server).Pause, (*server.Server).Resume},
}

// noSpace is a quota of etcd that is used up for a while. The alarm is raised without the data: each
// member refuses the same requests. Any member takes the alarm; one that was just restarted may not
// listen yet.
func noSpace(servers []*server.Server) soak.Fault {
	alarm := func(action string) {
		var failed error
		for _, member := range servers {
			body := strings.NewReader(`{"action":"` + action + `","memberID":"1","alarm":"NOSPACE"}`)
			reply, err := (&http.Client{Timeout: 15 * time.Second}).Post(member.URL()+"/v3/maintenance/alarm", "application/json", body)
			if err == nil {
				reply.Body.Close()
				if reply.StatusCode == http.StatusOK {
					return
				}
				err = errors.New(reply.Status)
			}
			failed = errors.Join(failed, err)
		}
		must(fmt.Errorf("alarm %s: %w", action, failed))
	}
	return soak.Fault{Kind: "no space", On: soak.Targets(serverTarget, len(servers)), Last: 2 * time.Second, Grace: 8 * time.Second, Begin: begin(func(*rand.Rand, int) func() {
		alarm("ACTIVATE")
		return func() { alarm("DEACTIVATE") }
	})}
}
