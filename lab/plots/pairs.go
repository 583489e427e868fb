package main

import "github.com/padlock-go/padlock/lab/bench/measure"

// A pair is a row of padlock and the row that it is compared with, on one axis in microseconds.
type pair struct {
	label      string // name in the chart
	experiment string
	column     string
	ours       string
	other      string
	micros     float64 // microseconds in one unit of the column
}

// pairings lists the experiments that are made from the rows of other experiments. The key is the
// name of the new experiment.
var pairings = map[string][]pair{
	coreName: {
		{"file lock | gofrs/flock", "file, uncontended", "ns/op", "filestore (driver)", "gofrs/flock", 1e-3},
		{"400 processes | blocking flock(2)", "file, waiting processes", "µs/hand-over", "padlock over filestore, 400", "blocking flock(2), 400", 1},
		{"memory lock | channel", "memory, uncontended", "ns/op", "padlock over memstore", "channel semaphore", 1e-3},
		{"1,000 goroutines | channel", "memory, 1000 waiting goroutines", "ns/hand-over", "padlock over memstore", "unbuffered channel", 1e-3},
		{"with package metrics | without", "memory, observed", "ns/op", "package metrics", "nobody watches", 1e-3},
		{"one permit of 4 | one name", "memory, permits and several names", "ns/op", "one permit of 4", "one name", 1e-3},
		{"three names | one name", "memory, permits and several names", "ns/op", "three names", "one name", 1e-3},
		{"64 waiters, 4 permits | channel of 4", "memory, 64 waiters for 4 permits", "total ms", "padlock over memstore", "channel of 4 elements", 1e3},
	},
	sqlName: {
		{"PostgreSQL | two statements", "pair, PostgreSQL", "p50 us", "sqlstore", "two statements", 1},
		{"PostgreSQL | SKIP LOCKED by hand", "pair, PostgreSQL", "p50 us", "sqlstore", "SKIP LOCKED by hand", 1},
		{"SQLite | two statements", "pair, SQLite", "p50 us", "sqlstore", "two statements", 1},
		{"pgadvisory, no fence | try and unlock", "pair, advisory locks", "p50 us", "pgadvisory, no fence", "try and unlock", 1},
		{"pgadvisory | try, upsert and unlock", "pair, advisory locks", "p50 us", "pgadvisory", "try, upsert and unlock", 1},
		{"mysqladvisory, no fence | GET_LOCK", "pair, named locks of MariaDB", "p50 us", "mysqladvisory, no fence", "GET_LOCK and RELEASE_LOCK", 1},
		{"mysqladvisory | GET_LOCK and upsert", "pair, named locks of MariaDB", "p50 us", "mysqladvisory", "GET_LOCK, upsert and RELEASE_LOCK", 1},
		{"16 processes | NOTIFY among 2", "drain, 64 waiters", "hand p50 us", "processes: 16", "bare NOTIFY and two updates: 2", 1},
		{"16 processes | NOTIFY among 16", "drain, 64 waiters", "hand p50 us", "processes: 16", "bare NOTIFY and two updates: 16", 1},
	},
	etcdName: {
		{"one caller | Txn + Delete", "pair, etcd", "p50 us", "etcdstore", "Txn + Delete", 1},
		{"one caller | concurrency.Mutex", "pair, etcd", "p50 us", "etcdstore", "concurrency.Mutex", 1},
		{"after 10,000 locks of the name | before", "pair, etcd", "p50 us", "etcdstore, after many locks of the name", "etcdstore", 1},
		{"64 waiters | one put and one event", "drain, etcd, 64 waiters", "hop us", "etcdstore", "etcd-watch (no lock)", 1},
		{"64 waiters | concurrency.Mutex", "drain, etcd, 64 waiters", "hop us", "etcdstore", "concurrency.Mutex", 1},
	},
	zookeeperName: {
		{"one caller, no fence | Lock of the client", zkAlone, "us", "zkstore, fences=no", zkPeer, 1},
		{"one caller | Lock of the client", zkAlone, "us", "zkstore", zkPeer, 1},
		{"16 callers, no fence | Lock of the client", zkCrowd, "us", "zkstore, fences=no", zkPeer, 1},
		{"16 callers | Lock of the client", zkCrowd, "us", "zkstore", zkPeer, 1},
		{"64 waiters, no fence | bare hop", zkDrain, "total_ms", "zkstore, fences=no", "zk-watch", 1e3 / 64},
		{"64 waiters | bare hop", zkDrain, "total_ms", "zkstore", "zk-watch", 1e3 / 64},
		{"64 waiters | Lock of the client", zkDrain, "total_ms", "zkstore", zkPeer, 1e3 / 64},
	},
	permitsName: {
		{"one permit of 4 | one name", "permits and several names", "us/op", "one permit of 4", "one name", 1},
		{"three names | one name", "permits and several names", "us/op", "three names", "one name", 1},
	},
}

// The names of the experiments that are made from pairs.
const (
	coreName      = "core"
	sqlName       = "sql"
	etcdName      = "etcd"
	zookeeperName = "zookeeper"
	permitsName   = "permits"
)

// The experiments of the benchmark of ZooKeeper, and the row of its client's Lock.
const (
	zkAlone = "pair, ZooKeeper, 1 goroutines"
	zkCrowd = "pair, ZooKeeper, 16 goroutines"
	zkDrain = "drain, ZooKeeper, 64 waiters"
	zkPeer  = "go-zookeeper Lock"
)

// addPairs adds the experiments that the variable pairings describes. Each of them compares figures
// of padlock with figures of other programs, in pairs. A pair is left out if the run does not have
// both figures.
func (all run) addPairs() {
	for name, pairs := range pairings {
		e := measure.Record{Name: name, Trials: map[string][]measure.Figures{}}
		for _, p := range pairs {
			of := all[p.experiment]
			ours, ok1 := all.median(p.experiment, p.ours, p.column)
			other, ok2 := all.median(p.experiment, p.other, p.column)
			if !ok1 || !ok2 {
				continue
			}
			e.Rounds = of.Rounds
			e.Trials[p.label] = []measure.Figures{{"padlock": ours * p.micros, "other": other * p.micros}}
			for _, t := range of.Targets {
				if t.Row == p.ours && t.Column == p.column && (t.Base == p.other || t.Base == "") {
					t.Row = p.label
					e.Targets = append(e.Targets, t)
				}
			}
		}
		all[name] = e
	}
}

// labels returns the rows of an experiment that is made from pairs.
func labels(name string) (all []string) {
	for _, p := range pairings[name] {
		all = append(all, p.label)
	}
	return all
}
