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
	drainName = "drain, a client each, 64 waiters"
	zkAlone   = "pair, ZooKeeper, 1 goroutines"
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

// A cell is a figure of an experiment, times a factor if that is not 0, or with rate how often a time
// in µs fits into a second. The zero cell stands for nothing to compare with.
type cell struct {
	experiment, row, column string
	factor                  float64
	rate                    bool
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
			if c.rate {
				x = threeDigits(1e6 / x)
			}
			fmt.Fprintf(&b, " %s |", measure.Figure(x))
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// threeDigits rounds x, which is 100 or more, to three significant digits.
func threeDigits(x float64) float64 {
	unit := math.Pow(10, math.Floor(math.Log10(x))-2)
	return math.Round(x/unit) * unit
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

// storeRow compares a store with another library: a free lock, which gives the rate, and a hand-over.
// A row is "" where there is none; the factor makes µs of a figure.
func storeRow(label string, free, handOver times) summaryRow {
	lock := free.cell(free.store)
	rate := lock
	rate.rate = true
	return summaryRow{label, []cell{lock, rate, handOver.cell(handOver.store), free.cell(free.peer), handOver.cell(handOver.peer)}}
}

// times are those of a store and of another library, its peer, in one experiment.
type times struct {
	experiment, column string
	factor             float64
	store, peer        string
}

func (t times) cell(row string) cell {
	if row == "" {
		return cell{}
	}
	return cell{experiment: t.experiment, row: row, column: t.column, factor: t.factor}
}

// redisRow compares the libraries on Redis. The row of the limit is "" where there is none.
func redisRow(label, experiment, column, limit string) summaryRow {
	return across(label, experiment, column, "padlock", "rueidislock-1key", "redislock-lin10", "redsync", limit)
}

// summaries are the tables of docs/performance.md, by their marks.
var summaries = map[string]summary{
	"each-store": {[]string{"a lock and its release, µs", "locks a second", "a hand-over, µs", "another library: a lock, µs", "a hand-over, µs"}, []summaryRow{
		storeRow("memory (a channel)", times{"memory, uncontended", "ns/op", 1e-3, "padlock over memstore", "channel semaphore"},
			times{"memory, 1000 waiting goroutines", "ns/hand-over", 1e-3, "padlock over memstore", "unbuffered channel"}),
		storeRow("files (gofrs/flock; flock(2))", times{"file, uncontended", "ns/op", 1e-3, "filestore (driver)", "gofrs/flock"},
			times{"file, waiting processes", "µs/hand-over", 0, "padlock over filestore, 400", "blocking flock(2), 400"}),
		storeRow("Redis (redislock)", times{aloneName, "p50 us", 0, "padlock", "redislock-lin10"},
			times{drainName, "total_ms", 1e3 / 64, "padlock", "redislock-lin10"}),
		storeRow("PostgreSQL (SKIP LOCKED by hand)", times{"pair, PostgreSQL", "p50 us", 0, "sqlstore", "SKIP LOCKED by hand"},
			times{"drain, 64 waiters", "hand p50 us", 0, "processes: 16", ""}),
		storeRow("SQLite", times{"pair, SQLite", "p50 us", 0, "sqlstore", ""}, times{}),
		storeRow("PostgreSQL's advisory locks", times{"pair, advisory locks", "p50 us", 0, "pgadvisory", ""}, times{}),
		storeRow("MariaDB's named locks", times{"pair, named locks of MariaDB", "p50 us", 0, "mysqladvisory", ""}, times{}),
		storeRow("etcd (`concurrency.Mutex`)", times{"pair, etcd", "p50 us", 0, "etcdstore", "concurrency.Mutex"},
			times{"drain, etcd, 64 waiters", "hop us", 0, "etcdstore", "concurrency.Mutex"}),
		storeRow("ZooKeeper (go-zookeeper's Lock)", times{zkAlone, "us", 0, "zkstore", zkPeer},
			times{zkDrain, "total_ms", 1e3 / 64, "zkstore", zkPeer}),
	}},
	"redis": {[]string{"padlock", "rueidislock", "redislock", "redsync", "bare limit"}, []summaryRow{
		redisRow("one caller: µs for a lock", aloneName, "p50 us", "limit-rueidis-1conn"),
		redisRow("64 waiters, a client each: ms until each had the lock once", drainName, "total_ms", "limit-blpop-tcp"),
		redisRow("the same: commands for a hand-over", drainName, "cmds", "limit-blpop-tcp"),
		redisRow("16 processes, one name: hand-overs a second", "procs, 16 processes", "hand-offs/s", "limit-blpop-tcp"),
		redisRow("the same: longest wait, ms", "procs, 16 processes", "longest ms", "limit-blpop-tcp"),
		redisRow("50 processes wait: commands a second", "50 processes blocked for 10s", "cmds/s", ""),
	}},
}
