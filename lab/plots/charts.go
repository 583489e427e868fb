package main

// A chart is one picture. Each of its series shows one column of one experiment.
type chart struct {
	file   string
	title  string
	axis   string // label of the axis of the figures, with the unit
	series []source
	rows   []string // from the top; rows that are not in the run are left out
	log    bool     // draws dots on a logarithmic axis instead of bars, for numbers that differ very much
	unit   string   // written after the figure of a bar or dot: "none" without a unit, "" without the figure

	further []source // further columns of the table that belongs to the chart
}

// A source says which column of which experiment a series shows.
type source struct {
	label      string // name in the legend; "" if there is only one series
	experiment string
	column     string
	shade      shade // of dots
}

// waiters returns the sources for the drain experiments with 16, 64 and 256 waiters.
func waiters(kind string) []source {
	return []source{
		{"16 waiters", "drain, " + kind + ", 16 waiters", "total_ms", light},
		{"64 waiters", "drain, " + kind + ", 64 waiters", "total_ms", medium},
		{"256 waiters", "drain, " + kind + ", 256 waiters", "total_ms", dark},
	}
}

// commands returns the sources for the number of commands per hand-over in the drain experiments.
func commands(kind string) []source {
	return []source{
		{label: "commands, 16", experiment: "drain, " + kind + ", 16 waiters", column: "cmds"},
		{label: "commands, 64", experiment: "drain, " + kind + ", 64 waiters", column: "cmds"},
		{label: "commands, 256", experiment: "drain, " + kind + ", 256 waiters", column: "cmds"},
	}
}

// aloneName is the name of the experiment with one caller, in which the server and the client have
// processors of their own.
const aloneName = "one caller, on processors of their own"

// manyName is the name of the experiment with 10000 holds, whose leases have the default length.
const manyName = "10000 holds with a TTL of 30s"

// compared returns the sources of a chart that compares padlock with other programs. The chart
// shows an experiment that addPairs has made.
func compared(name string) []source {
	return []source{{"padlock", name, "padlock", own}, {"compared with", name, "other", peer}}
}

const sinceFirstRelease = "milliseconds until every waiter has had the lock once (logarithmic)"

// The tables of `make bench-scale`.
const (
	scaleMemory    = "bytes of a hold, and of a name that was given back"
	scaleTimes     = "taking, renewing and giving back"
	scaleRestart   = "a restart of the server"
	scaleWaiting   = "100 processes wait for one name"
	scaleHandOvers = "8 processes hand 48 names over"
	scaleFree      = "8 processes take 384 free names"
)

var scaleRows = []string{
	"Redis", "Redis, nothing on disk", "Redis, three primaries", "Redis, three primaries, full load", "PostgreSQL", "PostgreSQL, advisory locks", "etcd",
}

// charts are the pictures of docs/internals/performance-rows.md and docs/internals/scale.md, in the
// order of these pages, and the picture of the README.
var charts = []chart{
	{
		file: "core.svg", title: "Without a server: padlock and what it is compared with",
		axis: "microseconds (logarithmic)", log: true,
		series: compared(coreName), rows: labels(coreName),
	},
	{
		file: "redis-one.svg", title: "Redis, one caller, on processors of their own",
		axis: "locks per second", unit: "none",
		series: []source{{"machine idle", aloneName, "ops/s", own}},
		rows: []string{
			"limit-rueidis-1conn", "padlock-string", "padlock", "redislock-lin10", "redsync", "rueidislock-1key",
			"rueidislock-3key",
		},
		further: []source{
			{label: "p50 µs", experiment: aloneName, column: "p50 us"},
			{label: "locks/s, processors kept awake", experiment: aloneName + ", kept awake", column: "ops/s"},
			{label: "p50 µs, kept awake", experiment: aloneName + ", kept awake", column: "p50 us"},
		},
	},
	{
		file: "redis-uncontended.svg", title: "Redis, 64 goroutines lock a name of their own each",
		axis: "locks per second as a share of the limit", unit: "none",
		series: []source{{"", "uncontended, 64 goroutines", "share", own}},
		rows: []string{
			"padlock-string-nofence", "padlock-string", "padlock-nofence", "padlock",
			"rueidislock-1key", "redislock-lin10", "redsync", "rueidislock-3key",
		},
		further: []source{
			{label: "share, 16 goroutines", experiment: "uncontended, 16 goroutines", column: "share"},
			{label: "share, 256", experiment: "uncontended, 256 goroutines", column: "share"},
			{label: "client µs", experiment: "uncontended, 64 goroutines", column: "client us"},
			{label: "server µs", experiment: "uncontended, 64 goroutines", column: "server us"},
		},
	},
	{
		file: "redis-drain-each.svg", title: "Redis, waiters with a client each take one lock in turn",
		axis: sinceFirstRelease, log: true, series: waiters("a client each"),
		rows: []string{
			"limit-blpop-tcp", "padlock", "padlock-string", "rueidislock-1key", "rueidislock-3key",
			"redislock-lin10", "redsync",
		},
		further: commands("a client each"),
	},
	{
		file: "redis-drain-one.svg", title: "Redis, waiters of one process take one lock in turn",
		axis: sinceFirstRelease, log: true, series: waiters("one client for all"),
		rows: []string{
			"limit-pubsub-tcp", "padlock", "padlock-string",
			"rueidislock-1key-noloop",
		},
		further: commands("one client for all"),
	},
	{
		file: "redis-procs.svg", title: "Redis, 16 processes compete for one lock",
		axis: "hand-overs from one process to another, per second", unit: "none",
		series: []source{{"", "procs, 16 processes", "hand-offs/s", own}},
		rows: []string{
			"limit-blpop-tcp", "padlock", "padlock-string", "rueidislock-1key", "rueidislock-3key",
			"redislock-lin10", "redsync",
		},
		further: []source{
			{label: "Jain", experiment: "procs, 16 processes", column: "Jain"},
			{label: "longest wait, ms", experiment: "procs, 16 processes", column: "longest ms"},
			{label: "commands for a lock", experiment: "procs, 16 processes", column: "cmds"},
		},
	},
	{
		file: "redis-blocked.svg", title: "Redis, 50 processes wait for a lock that nobody releases",
		axis: "commands per second that the server gets (logarithmic)", log: true, unit: "none",
		series: []source{{"", "50 processes blocked for 10s", "cmds/s", medium}},
		rows:   []string{"padlock", "padlock-string", "redsync", "redislock-lin10", "rueidislock-1key"},
	},
	{
		file: "redis-renewals.svg", title: "Redis, 10,000 holds with a lease of 30 s",
		axis: "microseconds of the client's processor for a renewal", unit: "none",
		series: []source{{"client µs", manyName, "client us", own}},
		rows:   []string{"padlock", "padlock-string"},
		further: []source{
			{label: "server µs", experiment: manyName, column: "server us"},
			{label: "commands for a renewal", experiment: manyName, column: "cmds"},
		},
	},
	{
		file: "redis-permits.svg", title: "Redis, one of four permits, and three names",
		axis: "microseconds (logarithmic)", log: true,
		series: compared(permitsName), rows: labels(permitsName),
	},
	{
		file: "sql.svg", title: "SQL: padlock and what it is compared with",
		axis: "microseconds (logarithmic)", log: true,
		series: compared(sqlName), rows: labels(sqlName),
	},
	{
		file: "sql-renewals.svg", title: "PostgreSQL, renewals of many holds",
		axis: "statements for a renewal (logarithmic)", log: true, unit: "none",
		series: []source{{"statements", "renewals, PostgreSQL", "statements", medium}},
		rows: []string{
			"1000 holds, one by one", "1000 holds, together", "10000 holds, one by one", "10000 holds, together",
		},
		further: []source{{label: "client µs", experiment: "renewals, PostgreSQL", column: "client us"}},
	},
	{
		file: "etcd.svg", title: "etcd: padlock and what it is compared with",
		axis: "microseconds (logarithmic)", log: true,
		series: compared(etcdName), rows: labels(etcdName),
	},
	{
		file: "zookeeper.svg", title: "ZooKeeper: padlock and what it is compared with",
		axis: "microseconds (logarithmic)", log: true,
		series: compared(zookeeperName), rows: labels(zookeeperName),
	},
	{
		file: "scale-memory.svg", title: "Many holds: bytes of one hold",
		axis: "bytes (logarithmic)", log: true,
		series: []source{
			{"client heap", scaleMemory, "hold: client heap", light},
			{"server data", scaleMemory, "hold: server data", dark},
		},
		rows: scaleRows,
		further: []source{
			{label: "holds", experiment: scaleMemory, column: "holds"},
			{label: "client RSS", experiment: scaleMemory, column: "hold: client RSS"},
			{label: "server RSS", experiment: scaleMemory, column: "hold: server RSS"},
			{label: "free name: client heap", experiment: scaleMemory, column: "free: client heap"},
			{label: "free name: server data", experiment: scaleMemory, column: "free: server data"},
		},
	},
	{
		file: "scale-renewals.svg", title: "Many holds: processor time of a renewal",
		axis: "microseconds (logarithmic)", log: true,
		series: []source{
			{"client µs", scaleTimes, "client us", light},
			{"server µs", scaleTimes, "server us", dark},
		},
		rows: scaleRows,
		further: []source{
			{label: "holds", experiment: scaleTimes, column: "holds"},
			{label: "TTL, s", experiment: scaleTimes, column: "TTL s"},
			{label: "seconds to take all", experiment: scaleTimes, column: "take s"},
			{label: "to give back all", experiment: scaleTimes, column: "give back s"},
			{label: "renewals/s", experiment: scaleTimes, column: "renewals/s"},
			{label: "requests/s", experiment: scaleTimes, column: "requests/s"},
			{label: "lost", experiment: scaleTimes, column: "lost"},
			{label: "holds that a processor of the client renews", experiment: scaleTimes, column: "client carries"},
			{label: "of the server", experiment: scaleTimes, column: "server carries"},
		},
	},
	{
		file: "scale-restart.svg", title: "Many holds, and a restart of the server",
		axis: "requests per second (logarithmic)", log: true,
		series: []source{
			{"before", scaleRestart, "requests/s before", light},
			{"busiest second", scaleRestart, "requests/s busiest", dark},
		},
		rows: scaleRows,
		further: []source{
			{label: "server away, s", experiment: scaleRestart, column: "away s"},
			{label: "kept", experiment: scaleRestart, column: "kept"},
			{label: "lost", experiment: scaleRestart, column: "lost by it"},
			{label: "all renewed or lost after, s", experiment: scaleRestart, column: "settled after s"},
		},
	},
	{
		file: "scale-waiting.svg", title: "100 processes wait for one name",
		axis: "KiB of the server's memory for a process (logarithmic)", log: true, unit: "none",
		series: []source{{"server KiB", scaleWaiting, "server KiB each", medium}},
		rows:   scaleRows,
		further: []source{
			{label: "client KiB", experiment: scaleWaiting, column: "client KiB each"},
			{label: "connections", experiment: scaleWaiting, column: "connections each"},
			{label: "requests/s of all", experiment: scaleWaiting, column: "requests/s"},
			{label: "server ms/s for all", experiment: scaleWaiting, column: "server ms/s"},
		},
	},
	{
		file: "scale-hand-overs.svg", title: "8 processes hand 48 names over",
		axis: "microseconds of the servers' processors for a hand-over (logarithmic)", log: true, unit: "none",
		series: []source{{"server µs", scaleHandOvers, "server us", medium}},
		rows:   scaleRows,
		further: []source{
			{label: "hand-overs/s here", experiment: scaleHandOvers, column: "locks/s"},
			{label: "each node, µs", experiment: scaleHandOvers, column: "node us"},
			{label: "computed limit/s", experiment: scaleHandOvers, column: "limit/s"},
		},
	},
	{
		file: "scale-cluster.svg", title: "Redis, one server and three primaries: computed limits",
		axis: "locks per second", unit: "none",
		series: []source{{"hand-overs/s", scaleHandOvers, "limit/s", own}},
		rows:   []string{"Redis", "Redis, three primaries", "Redis, three primaries, full load"},
		further: []source{
			{label: "locks/s of free names", experiment: scaleFree, column: "limit/s"},
			{label: "free names: server µs", experiment: scaleFree, column: "server us"},
		},
	},
	{
		file: "readme.svg", title: "64 waiters on Redis take one lock in turn",
		axis: "milliseconds until every waiter has had the lock once", unit: "ms",
		series: []source{{"", "drain, a client each, 64 waiters", "total_ms", own}},
		rows:   []string{"padlock", "rueidislock-1key", "rueidislock-3key", "redislock-lin10", "redsync"},
	},
}

// A point is the figure of one row in one series.
type point struct {
	row   string
	value float64
}

// line holds the points of one series in one run.
type line struct {
	label  string
	shade  shade
	points []point
}

// collect takes the figures of a chart from a run. It returns nothing if the run has none of them.
func (c chart) collect(all run) []line {
	var lines []line
	for _, s := range c.series {
		l := line{label: s.label, shade: s.shade}
		for _, row := range c.rows {
			x, ok := all.median(s.experiment, row, s.column)
			if ok && (x > 0 || !c.log) { // a logarithmic axis has no 0
				l.points = append(l.points, point{row, x})
			}
		}
		if len(l.points) > 0 {
			lines = append(lines, l)
		}
	}
	return lines
}
