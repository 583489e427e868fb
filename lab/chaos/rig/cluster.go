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
func cluster(s *Site) (*setup, error) {
	var servers []*server.Server
	if err := try(func() { servers = server.RedisCluster(&s.host) }); err != nil {
		return nil, err
	}
	var stage []string
	for w := range s.Workers {
		first, second := servers[w%len(servers)], servers[(w+1)%len(servers)]
		stage = append(stage, fmt.Sprintf("redis+cluster://%s?node=%s&max-ttl=%v&restart-guard=strict", first.Addr(), second.Addr(), guardTTL))
	}
	// A primary keeps its list of nodes when it restarts, but not the locks.
	faults := append(redisFaults(servers), restart("restart without data", servers, true, guardTTL+6*time.Second), moveSlots(servers))
	for i := range faults {
		oneAtATime(&faults[i], len(servers))
	}
	return &setup{stages: [][]string{stage}, open: Open, faults: faults}, nil
}

// oneAtATime changes a fault that can hit n servers. Afterwards, the fault hits only one of these
// servers at a time. Otherwise moveSlots would fail: a slot cannot be moved while a primary stands
// still.
func oneAtATime(f *soak.Fault, n int) {
	begin := f.Begin
	f.On = []string{"the cluster"}
	f.Begin = func(d *rand.Rand, _ int) (func() error, error) { return begin(d, d.IntN(n)) }
}

// moveSlots returns a fault that moves one slot, with all its names, to another primary. Nothing is
// moved as long as the cluster is not complete, for example just after a primary has restarted.
func moveSlots(servers []*server.Server) soak.Fault {
	return soak.Fault{Kind: "slot moved", Grace: 4 * time.Second, Weight: 4, Begin: func(d *rand.Rand, from int) (func() error, error) {
		for _, s := range servers {
			if info, err := askRedis(s, "CLUSTER", "INFO"); err != nil || !strings.Contains(info, "cluster_state:ok") {
				return nil, err
			}
		}
		key, err := askRedis(servers[from], "RANDOMKEY")
		if err != nil || key == "" { // the primary has no key
			return nil, err
		}
		return nil, moveSlot(servers, key, from, (from+1+d.IntN(len(servers)-1))%len(servers))
	}}
}

// moveSlot moves the slot of a key, with all its keys, from one primary to another.
func moveSlot(servers []*server.Server, key string, from, to int) error {
	slot, err := askRedis(servers[from], "CLUSTER", "KEYSLOT", key)
	if err != nil {
		return err
	}
	var ids []string
	for _, s := range servers {
		id, err := askRedis(s, "CLUSTER", "MYID")
		if err != nil {
			return err
		}
		ids = append(ids, id)
	}
	if err := tell(servers[to], "CLUSTER SETSLOT "+slot+" IMPORTING "+ids[from]); err != nil {
		return err
	}
	if err := tell(servers[from], "CLUSTER SETSLOT "+slot+" MIGRATING "+ids[to]); err != nil {
		return err
	}
	if err := moveKeys(servers[from], servers[to], slot); err != nil {
		return err
	}
	for _, i := range []int{to, from, 3 - to - from} {
		if err := tell(servers[i], "CLUSTER SETSLOT "+slot+" NODE "+ids[to]); err != nil {
			return err
		}
	}
	return nil
}

// moveKeys moves all keys of a slot.
func moveKeys(from, to *server.Server, slot string) error {
	for {
		key, err := askRedis(from, "EVAL", "return redis.call('CLUSTER','GETKEYSINSLOT',ARGV[1],1)[1]", "0", slot)
		if err != nil || key == "" { // no key is left
			return err
		}
		p := to.Place()
		if _, err := askRedis(from, "MIGRATE", "127.0.0.1", strconv.Itoa(p.Port), key, "0", "5000"); err != nil {
			return err
		}
	}
}
