package rig

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/lab/soak"
)

// cluster returns a row whose locks are in a Redis Cluster of three primaries. The workers connect
// to the primaries directly, because a client of a cluster connects to the addresses that the
// cluster announces. So no request or reply is lost unless a connection or a server is killed.
func cluster(s *Site) *setup {
	servers := server.RedisCluster(&s.host)
	var stage []string
	for w := range s.Workers {
		first, second := servers[w%len(servers)], servers[(w+1)%len(servers)]
		stage = append(stage, fmt.Sprintf("redis+cluster://%s?node=%s&max-ttl=%v&restart-guard=strict", first.Addr(), second.Addr(), guardTTL))
	}
	faults := faultsOf(servers, 4*time.Second, redisHits...)
	// A primary keeps its list of nodes when it restarts, but not the locks.
	faults = append(faults, faultsOf(servers, guardTTL+6*time.Second, restarted("restart without data", true))...)
	move := soak.Fault{Kind: "slot moved", On: faults[0].On, Grace: 4 * time.Second, Weight: 4, Begin: begin(func(d *rand.Rand, from int) func() {
		moveSlot(servers, from, (from+1+d.IntN(len(servers)-1))%len(servers))
		return nil
	})}
	return &setup{stages: [][]string{stage}, open: Open, faults: oneAtATime("the cluster", append(faults, move))}
}

// moveSlot moves the slot of some key, with all its keys, from one primary to another. Nothing is
// moved as long as the cluster is not complete, for example just after a primary has restarted.
func moveSlot(servers []*server.Server, from, to int) {
	var ids []string
	for _, s := range servers {
		if !strings.Contains(askRedis(s, "CLUSTER", "INFO"), "cluster_state:ok") {
			return
		}
		ids = append(ids, askRedis(s, "CLUSTER", "MYID"))
	}
	key := askRedis(servers[from], "RANDOMKEY")
	if key == "" { // the primary has no key
		return
	}
	slot := askRedis(servers[from], "CLUSTER", "KEYSLOT", key)
	tell(servers[to], "CLUSTER SETSLOT "+slot+" IMPORTING "+ids[from])
	tell(servers[from], "CLUSTER SETSLOT "+slot+" MIGRATING "+ids[to])
	moveKeys(servers[from], servers[to], slot)
	for _, i := range []int{to, from, 3 - to - from} {
		tell(servers[i], "CLUSTER SETSLOT "+slot+" NODE "+ids[to])
	}
}

// moveKeys moves all keys of a slot.
func moveKeys(from, to *server.Server, slot string) {
	for {
		key := askRedis(from, "EVAL", "return redis.call('CLUSTER','GETKEYSINSLOT',ARGV[1],1)[1]", "0", slot)
		if key == "" { // no key is left
			return
		}
		askRedis(from, "MIGRATE", "127.0.0.1", strconv.Itoa(to.Place().Port), key, "0", "5000")
	}
}
