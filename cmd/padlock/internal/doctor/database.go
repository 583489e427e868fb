package doctor

import (
	"cmp"
	"maps"
	"slices"
)

// setting is a setting of a server other than Redis on which the safety of locks depends.
type setting struct {
	name string // as the store reports it
	why  string
}

const (
	lostLocks = "locks that the server had confirmed are gone after a crash, and then two programs hold the same lock"
	slowLocks = "renewals wait or fail while others write, and a lock that is not renewed is lost"
)

var settings = []setting{
	{"version", "padlock has not been tried with every server"},
	{"standby", "a standby cannot grant locks"},
	{"read-only", "a server that does not write cannot grant locks"},
	{"query_only", "a connection that does not write cannot grant locks"},
	{"fsync", lostLocks},
	{"synchronous_commit", lostLocks},
	{"standbys", "a failover to a standby that lags behind frees locks that are held"},
	{"innodb_flush_log_at_trx_commit", lostLocks},
	{"synchronous", lostLocks},
	{"journal_mode", slowLocks},
	{"busy_timeout", slowLocks},
	{"pooler", "in transaction mode a pooler gives the session that has the lock to other programs, and then two programs hold the same lock"},
	{"locks", "a server whose lock table is full grants no locks"},
	{"cluster", "a node of a cluster refuses the names that belong to other nodes"},
	{"galera", "a named lock excludes only the clients of one node, and then two programs hold the same lock"},
	{"replica", "programs that lock at the primary do not see the locks of a replica"},
	{"proxy", "a proxy that shares sessions between clients breaks every named lock"},
	{"connections", "a program needs up to 13 connections for named locks"},
	{"layout", "a name that programs store in two ways has two holders"},
	{"table", "a name that is in two tables has two holders"},
	{"time_zone", "PHP takes locks that others hold, and then two programs hold the same lock"},
	{"collation", "names that the database takes for the same share a lock"},
	{"reliability", "a lock can disappear while its holder works, and then two programs hold the same lock"},
	{"maturity", "nobody has run the tests of an experimental store against the real server, so it may break its promises"},
	{"index", "the documents of names that nobody uses any more fill the collection"},
	{"evictions", "a server that runs out of memory drops locks that are held"},
	{"member", "one server alone, or an ensemble without a leader, grants no locks when it is down"},
	{"session-timeout", "the servers free the locks of a process that died or fell silent after this time"},
	{"servers", "a program can only move to servers that it knows"},
	{"skipACL", "everybody who reaches the servers can end locks"},
	{"alarms", "a server with an alarm grants no locks"},
	{"leader", "servers without a leader grant no locks"},
	{"db-size", "a server without room grants no locks"},
	{"conditional-writes", "a service that does not check the condition of a write grants one lock to two programs"},
	{"versioning", "old versions of the records fill the bucket"},
	{"lifecycle", "a name whose record is removed too early has two holders"},
	{"table-rights", "LockTx or the history of jobs fails, or the rows of names that nobody uses any more stay"},
	{"idle_in_transaction_session_timeout", "a machine that vanishes after CheckTx or LockTx keeps its names until the server ends the transaction"},
}

// elsewhere lists the findings that other checks of this package report, or need.
var elsewhere = []string{
	"mode", "server", "run-id", "role", "uptime", "maxmemory", "maxmemory-policy", "persistence", "restart-guard", "known-before", "connected-replicas",
}

// database checks the settings of a database. No advice of a store is left out, and nothing that it
// could not read: a finding that no check knows is a problem, or unknown, then.
func (v *visit) database(n node) {
	known := slices.Clone(elsewhere)
	for _, s := range settings {
		known = append(known, s.name)
		f, ok := n[s.name]
		switch {
		case !ok || s.name == "version" && n["server"].Name != "":
		case f.Value == unknownValue:
			v.unknown(s.name, "unknown", s.why, cmp.Or(f.Advice, "allow the user to read the setting"))
		case f.Advice != "":
			v.problem(s.name, f.Value, s.why, f.Advice)
		default:
			v.good(s.name, f.Value)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(n)) {
		switch f := n[name]; {
		case slices.Contains(known, name):
		case f.Value == unknownValue:
			v.unknown(name, "unknown", "the store reports it, because locks may depend on it", cmp.Or(f.Advice, "allow the user to read the setting"))
		case f.Advice != "":
			v.problem(name, f.Value, "the store warns of it", f.Advice)
		}
	}
}
