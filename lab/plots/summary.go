package main

import (
	"fmt"
	"math"
	"strings"

	"github.com/padlock-go/padlock/lab/bench/measure"
)

// The experiments of several summaries.
const (
	aloneName = "one caller, on processors of their own"
	zkAlone   = "pair, ZooKeeper, 1 goroutines"
	zkCrowd   = "pair, ZooKeeper, 16 goroutines"
	zkDrain   = "drain, ZooKeeper, 64 waiters"
	zkPeer    = "go-zookeeper Lock"
)

// A summary is a table for users: few rows of many experiments, without targets.
type summary struct {
	head []string // of the columns after the first
	rows []summaryRow
}

type summaryRow struct {
	label string
	cells []cell
}

// A cell is a figure of an experiment, times a factor if that is not 0. The zero cell stands for
// nothing to compare with.
type cell struct {
	experiment, row, column string
	factor                  float64
}

// write returns the summary as a Markdown table. It is empty if the run lacks one of the figures.
func (s summary) write(all run) string {
	var b strings.Builder
	fmt.Fprintf(&b, "| | %s |\n%s|\n", strings.Join(s.head, " | "), strings.Repeat("|---", len(s.head)+1))
	for _, r := range s.rows {
		fmt.Fprintf(&b, "| %s |", r.label)
		for _, c := range r.cells {
			x := all.find(c.experiment).Median(c.row, c.column)
			if math.IsNaN(x) && c != (cell{}) {
				return ""
			}
			if c.factor != 0 {
				x *= c.factor
			}
			fmt.Fprintf(&b, " %s |", measure.Figure(x))
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// across returns a row whose cells are several rows of one experiment.
func across(label, experiment, column string, rows ...string) summaryRow {
	r := summaryRow{label: label}
	for _, row := range rows {
		c := cell{experiment: experiment, row: row, column: column}
		if row == "" {
			c = cell{}
		}
		r.cells = append(r.cells, c)
	}
	return r
}

// times multiplies the figures of a row.
func (r summaryRow) times(factor float64) summaryRow {
	for i := range r.cells {
		if r.cells[i] != (cell{}) {
			r.cells[i].factor = factor
		}
	}
	return r
}

var againstPeers = []string{"padlock", "the next library", "bare limit"}

// redisRow compares the libraries on Redis. The row of the limit is "" where there is none.
func redisRow(label, experiment, column, limit string) summaryRow {
	return across(label, experiment, column, "padlock", "rueidislock-1key", "redislock-lin10", "redsync", limit)
}

// summaries are the tables of docs/performance.md, by their marks.
var summaries = map[string]summary{
	"without-a-server": {againstPeers, []summaryRow{
		across("lock and unlock a file (gofrs/flock)", "file, uncontended", "ns/op", "filestore (driver)", "gofrs/flock", "").times(1e-3),
		across("hand a file over among 400 processes (flock(2))", "file, waiting processes", "µs/hand-over",
			"padlock over filestore, 400", "", "blocking flock(2), 400"),
		across("lock and unlock in memory (a channel)", "memory, uncontended", "ns/op", "padlock over memstore", "", "channel semaphore").times(1e-3),
		across("hand over among 1,000 goroutines (a channel)", "memory, 1000 waiting goroutines", "ns/hand-over",
			"padlock over memstore", "", "unbuffered channel").times(1e-3),
	}},
	"redis": {[]string{"padlock", "rueidislock", "redislock", "redsync", "bare limit"}, []summaryRow{
		redisRow("one caller: µs for a lock", aloneName, "p50 us", "limit-rueidis-1conn"),
		redisRow("64 goroutines, a name each: client's processor, µs", "uncontended, 64 goroutines", "client us", ""),
		redisRow("the same: server's processor, µs", "uncontended, 64 goroutines", "server us", ""),
		redisRow("64 waiters, a client each: ms until each had the lock once", "drain, a client each, 64 waiters", "total_ms", "limit-blpop-tcp"),
		redisRow("the same: commands for a hand-over", "drain, a client each, 64 waiters", "cmds", "limit-blpop-tcp"),
		redisRow("16 processes, one name: hand-overs a second", "procs, 16 processes", "hand-offs/s", "limit-blpop-tcp"),
		redisRow("the same: longest wait, ms", "procs, 16 processes", "longest ms", "limit-blpop-tcp"),
		redisRow("50 processes wait: commands a second", "50 processes blocked for 10s", "cmds/s", ""),
	}},
	"sql": {againstPeers, []summaryRow{
		across("PostgreSQL (SKIP LOCKED by hand; two statements)", "pair, PostgreSQL", "p50 us", "sqlstore", "SKIP LOCKED by hand", "two statements"),
		across("SQLite (two statements)", "pair, SQLite", "p50 us", "sqlstore", "", "two statements"),
		across("PostgreSQL's advisory locks (lock, fence, unlock)", "pair, advisory locks", "p50 us", "pgadvisory", "", "try, upsert and unlock"),
		across("the same without fences", "pair, advisory locks", "p50 us", "pgadvisory, no fence", "", "try and unlock"),
		across("MariaDB's named locks (lock, fence, unlock)", "pair, named locks of MariaDB", "p50 us", "mysqladvisory", "", "GET_LOCK, upsert and RELEASE_LOCK"),
		across("the same without fences", "pair, named locks of MariaDB", "p50 us", "mysqladvisory, no fence", "", "GET_LOCK and RELEASE_LOCK"),
		across("PostgreSQL, a hand-over among 16 processes (NOTIFY)", "drain, 64 waiters", "hand p50 us",
			"processes: 16", "", "bare NOTIFY and two updates: 16"),
	}},
	"etcd": {againstPeers, []summaryRow{
		across("a free lock", "pair, etcd", "p50 us", "etcdstore", "concurrency.Mutex", "Txn + Delete"),
		across("a hand-over, 64 waiters", "drain, etcd, 64 waiters", "hop us", "etcdstore", "concurrency.Mutex", "etcd-watch (no lock)"),
	}},
	"zookeeper": {againstPeers, []summaryRow{
		across("a free lock", zkAlone, "us", "zkstore", zkPeer, ""),
		across("a free lock, 16 callers", zkCrowd, "us", "zkstore", zkPeer, ""),
		across("a hand-over, 64 waiters", zkDrain, "total_ms", "zkstore", zkPeer, "zk-watch").times(1e3 / 64),
	}},
}
