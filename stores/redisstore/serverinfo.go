package redisstore

import (
	"context"
	"errors"
	"strings"
	"sync"

	"github.com/padlock-go/padlock/driver"
	"github.com/redis/rueidis"
)

// serverInfo asks every node. It also returns the value that serverChecks.turns had before the
// first question.
func (s *Store) serverInfo(ctx context.Context) (turns uint64, nodes []node, err error) {
	g := &s.checks
	var failed map[string]error // the nodes that did not answer the PING; they are not asked again
	if g.client.Load() == nil {
		c, err := rueidis.NewClient(g.option)
		if err != nil {
			if c != nil {
				c.Close()
			}
			return 0, nil, s.unreached(ctx, err)
		}
		g.client.Store(s.connected(c, nil))
	} else {
		failed = silent(s.askAll(ctx, nil, (*node).ping)) // dials nodes that are not connected
	}
	turns = g.turns.Load()
	nodes = s.askAll(ctx, failed, (*node).askNode)
	for i := range nodes {
		if nodes[i].err == nil {
			return turns, nodes, nil
		}
		err = nodes[i].err
	}
	return 0, nil, s.unreached(ctx, err)
}

// These constants tell scripts how to send messages. PUBLISH and SPUBLISH return a number of
// subscribers. In a cluster, that number counts only the subscribers at one node.
const (
	messagesToAll   = "0" // PUBLISH in a cluster
	messagesCounted = "1" // PUBLISH without a cluster; it returns the number of all subscribers
	messagesSharded = "2" // SPUBLISH in a cluster, and PUBLISH if SPUBLISH reaches nobody
)

// connected returns c with the settings that scripts need.
func (s *Store) connected(c rueidis.Client, owners hashSlotOwners) *connected {
	counts := messagesCounted
	switch {
	case owners != nil:
		counts = messagesSharded
	case c.Mode() == rueidis.ClientModeCluster:
		counts = messagesToAll
	}
	alone := digit(s.config.alone)
	return &connected{
		Client: c, owners: owners,
		setting: millis(s.keep) + " " + counts + " " + digit(s.config.foreign) + " " + alone,
		endings: []string{millis(driver.MaxReservation + s.keep), counts, alone},
	}
}

// shareMessages decides how messages are sent in a cluster. The caller holds the mu of
// serverChecks.
func (s *Store) shareMessages() {
	g := &s.checks
	c := g.client.Load()
	if c.Mode() != rueidis.ClientModeCluster {
		return
	}
	g.client.Store(s.connected(c.Client, ownersOf(g.nodes)))
}

// ownersOf returns the owners of the slots. It returns nil if one of the servers that answered is
// too old for sharded messages, which came with Redis 7.0.
//
// The primaries may have different lists of owners for a while. ownersOf uses the list of the
// primary whose address is first in alphabetical order. So the next call usually uses the same
// list.
func ownersOf(nodes []node) (all hashSlotOwners) {
	from := ""
	for i := range nodes {
		n := &nodes[i]
		if n.err != nil {
			continue
		}
		if major, _ := n.version(); major < 7 {
			return nil
		}
		if !n.replica() && n.owners != nil && (from == "" || n.addr < from) {
			from, all = n.addr, n.owners
		}
	}
	return all
}

// unreached makes the error for a failed check of the servers. The request that needed the check
// was not sent.
func (s *Store) unreached(ctx context.Context, err error) error {
	if s.calls.Closing.Err() != nil {
		return driver.ErrClosed
	}
	if reply, ok := rueidis.IsRedisErr(err); ok {
		err = refusal(reply.Error())
		if !errors.Is(err, driver.ErrUncertain) {
			return err
		}
		return unavailable("%s", reply.Error())
	}
	if advice := s.unconnected(err); advice != "" {
		return unavailable("%s (%v)", advice, err)
	}
	return unavailable("%v", err)
}

// askAll calls ask for every node. It skips the nodes whose addresses have an error in knownErrs.
func (s *Store) askAll(ctx context.Context, knownErrs map[string]error, ask func(*node, context.Context, rueidis.Client)) []node {
	c := s.checks.client.Load()
	clients := c.Nodes()
	nodes := make([]node, 0, len(clients))
	for addr := range clients {
		nodes = append(nodes, node{addr: addr, cluster: c.Mode() == rueidis.ClientModeCluster, err: knownErrs[addr]})
	}
	var wg sync.WaitGroup
	for i := range nodes {
		if nodes[i].err == nil {
			wg.Go(func() { ask(&nodes[i], ctx, clients[nodes[i].addr]) })
		}
	}
	wg.Wait()
	return nodes
}

// silent returns the nodes that did not answer, each with its error.
func silent(nodes []node) map[string]error {
	failed := map[string]error{}
	for i := range nodes {
		if err := nodes[i].err; err != nil {
			failed[nodes[i].addr] = err
		}
	}
	return failed
}

func (n *node) ping(ctx context.Context, c rueidis.Client) {
	n.err = c.Do(ctx, c.B().Ping().Build()).NonRedisError()
}

func (n *node) askNode(ctx context.Context, c rueidis.Client) {
	cmds := rueidis.Commands{c.B().Info().Build(), c.B().ConfigGet().Parameter("append*").Build()}
	if n.cluster {
		cmds = append(cmds, c.B().ClusterSlots().Build())
	}
	got := c.DoMulti(ctx, cmds...)
	text, err := got[0].ToString()
	if err != nil && !hides(err) {
		n.err = err
		return
	}
	n.info = map[string]string{}
	for line := range strings.Lines(text) {
		if key, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			n.info[key] = value
		}
	}
	if conf, err := got[1].AsStrMap(); err == nil {
		n.conf = conf
	}
	if n.cluster {
		n.owners = readOwners(got[2])
	}
}

// hides reports whether err says that the server never shows INFO to this user. After any other
// error the server shows it later, so it counts as a server that has not answered.
func hides(err error) bool {
	refused, ok := rueidis.IsRedisErr(err)
	if !ok {
		return false
	}
	code, _, _ := strings.Cut(refused.Error(), " ")
	return code != "BUSY" && code != "LOADING" && code != "MASTERDOWN" && code != "NOAUTH"
}

// judge finds the reason not to grant locks, if any. The caller holds the mu of serverChecks.
func (s *Store) judge() {
	g := &s.checks
	g.why = nil
	cluster := g.client.Load().Mode() == rueidis.ClientModeCluster
	for i := range g.nodes {
		n := &g.nodes[i]
		if n.err != nil || n.replica() && cluster {
			continue
		}
		if why := s.verdict(n); why != nil && g.why == nil {
			g.why = why
		}
		// The guard goes on if another server becomes the primary: its data may come from the
		// server that has restarted.
		if off, unread := s.restartGuard(n); off > 0 {
			g.guardUntil, g.unread = max(g.guardUntil, s.clock.Now().Add(off)), unread
		}
	}
	if g.guardUntil <= s.clock.Now() {
		s.trustData()
	}
}

func (s *Store) verdict(n *node) error {
	policy := n.info["maxmemory_policy"]
	major, minor := n.version()
	switch {
	case n.info["redis_mode"] == "sentinel":
		return unavailable("it is a sentinel; write redis+sentinel:// and the name of the primary")
	case major > 0 && (major < 6 || major == 6 && minor < 2):
		return unavailable("the server is version %s; padlock needs 6.2 or newer", n.info["redis_version"])
	case n.replica():
		return unavailable("%s is a replica; a lock there is seen by nobody else", n.addr)
	case !s.config.evicts && policy == "":
		return unavailable("the eviction policy cannot be read: allow the user INFO, or AllowEviction (eviction=allow)")
	case !s.config.evicts && n.evicts():
		return unavailable("maxmemory-policy is %s, which drops locks that are held to make room: set it to noeviction, "+
			"or accept that with AllowEviction (eviction=allow)", policy)
	case s.config.durable && !n.durable():
		return unavailable("not every change is on disk before its reply: set appendonly yes and appendfsync always, or leave Durable (durable=yes) out")
	}
	return nil
}
