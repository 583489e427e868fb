package redisstore

import (
	"strings"
	"time"

	"github.com/redis/rueidis"
)

// The restart guard remembers a line for each server in RunIDs: the server's run id, and sometimes
// one of these words.
const (
	// wordRestarted: the server had another run id before, and may have lost locks.
	wordRestarted = "restarted"
	// wordFollowed: the server had another run id before, but then it was a replica of a primary
	// whose data the process trusts.
	wordFollowed = "followed"
)

// restartGuard remembers the run id of the primary n. It returns how long the guard still refuses
// locks on n, or 0. If it cannot read what it remembers, the server may have restarted since. Then
// it returns the error too, acts as if the server had, and leaves what is remembered as it is.
func (s *Store) restartGuard(n *node) (time.Duration, error) {
	id := n.info["run_id"]
	uptime := n.number("uptime_in_seconds")
	if s.config.guard == GuardOff || id == "" || uptime < 0 {
		return 0, nil
	}
	line, unread := s.config.runIDs.Load(n.addr)
	before, word, _ := strings.Cut(line, " ")
	if before != "" {
		unread = nil // the process remembers the line that the directory could not keep
	}
	switch known := before == id; {
	case !known && s.followed(n):
		word = wordFollowed
	case unread != nil || !known && before != "":
		word = wordRestarted
	case !known:
		word = ""
	}
	if before != id && unread == nil {
		_ = s.config.runIDs.Store(n.addr, strings.TrimSpace(id+" "+word)) // Status reports the error
	}
	if n.durable() || word == wordFollowed || word != wordRestarted && s.config.guard != GuardStrict {
		return 0, nil
	}
	longest := s.config.longestTTL()
	longest += longest/100 + time.Second
	return max(0, longest-time.Duration(uptime)*time.Second), unread
}

// followed reports whether n was a replica after its start and had all data of a primary that this
// process trusts, until it became the primary itself. So n has lost no more than a failover loses.
//
// A server that becomes the primary keeps the replication id of its former primary, and the offset
// up to which it has that primary's data, as its second id and offset. But it also does so after it
// has loaded a snapshot, which may lack the last locks. Only a replica that has copied all data
// receives the changes that follow, and keeps them in its backlog. The backlog is not part of a
// snapshot. So n has received such changes if the backlog begins before the second offset.
func (s *Store) followed(n *node) bool {
	first := n.number("repl_backlog_first_byte_offset")
	if first <= 0 || first >= n.number("second_repl_offset") {
		return false
	}
	line, _ := s.config.runIDs.Load(dataKey(n.info["master_replid2"]))
	return line != ""
}

// trustData remembers the replication ids of all primaries that may have replicas. It is called
// while the guard does not act. The caller holds the mu of serverChecks.
func (s *Store) trustData() {
	single := s.checks.client.Load().Mode() == rueidis.ClientModeStandalone
	for i := range s.checks.nodes {
		n := &s.checks.nodes[i]
		id := n.info["master_replid"]
		if n.err != nil || n.replica() || id == "" || s.config.guard == GuardOff || single && n.number("connected_slaves") <= 0 {
			continue
		}
		if line, _ := s.config.runIDs.Load(dataKey(id)); line == "" {
			_ = s.config.runIDs.Store(dataKey(id), n.info["run_id"])
		}
	}
}

func dataKey(replicationID string) string { return "data " + replicationID }
