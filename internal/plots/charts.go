package main

import "image/color"

// A chart is one picture. Each of its series shows one column of one experiment.
type chart struct {
	file   string
	title  string
	axis   string // label of the axis of the figures, with the unit
	series []source
	rows   []string // from the top; rows that are not in the run are left out
	log    bool     // the figures differ by orders of magnitude, so they are dots on a logarithmic axis
	format string   // format of the figure at the end of a bar; dots have no figure
}

// A source is the origin of a series' figures.
type source struct {
	label      string // name in the legend; "" if there is only one series
	experiment string
	column     string
	shade      color.RGBA // color of dots
}

// waiters returns the sources for the three numbers of waiters in the drain experiments.
func waiters(kind string) []source {
	return []source{
		{"16 waiters", "drain, " + kind + ", 16 waiters", "total_ms", light},
		{"64 waiters", "drain, " + kind + ", 64 waiters", "total_ms", medium},
		{"256 waiters", "drain, " + kind + ", 256 waiters", "total_ms", dark},
	}
}

const sinceFirstRelease = "milliseconds until every waiter has had the lock once (logarithmic)"

// charts are the pictures of docs/performance.md, in the order of that page, and the picture of the
// README.
var charts = []chart{
	{
		file: "core.svg", title: "Without a server: padlock and what it is compared with",
		axis: "microseconds (logarithmic)", log: true,
		series: []source{
			{"padlock", coreName, "padlock", own},
			{"what it is compared with", coreName, "other", peer},
		},
		rows: []string{
			"file lock | gofrs/flock",
			"400 processes | blocking flock(2)",
			"memory lock | channel",
			"1,000 goroutines | channel",
		},
	},
	{
		file: "redis-uncontended.svg", title: "Redis, 64 goroutines lock a name of their own each",
		axis: "locks per second as a share of limit-rueidis-1conn", format: "%.2f",
		series: []source{{"", "uncontended, 64 goroutines", "share", own}},
		rows: []string{
			"padlock-string-nofence", "padlock-string", "padlock-nofence", "padlock",
			"rueidislock-1key", "redislock-lin10", "redsync", "rueidislock-3key",
		},
	},
	{
		file: "redis-drain-each.svg", title: "Redis, waiters with a client each take one lock in turn",
		axis: sinceFirstRelease, log: true, series: waiters("a client each"),
		rows: []string{
			"limit-blpop-tcp", "padlock", "padlock-string", "rueidislock-1key", "rueidislock-3key",
			"redislock-lin10", "redsync",
		},
	},
	{
		file: "redis-drain-one.svg", title: "Redis, waiters of one process take one lock in turn",
		axis: sinceFirstRelease, log: true, series: waiters("one client for all"),
		rows: []string{
			"limit-pubsub-tcp", "padlock/locally", "padlock-string/locally", "padlock", "padlock-string",
			"rueidislock-1key-noloop",
		},
	},
	{
		file: "redis-procs.svg", title: "Redis, 16 processes compete for one lock",
		axis: "hand-overs from one process to another, per second", format: "%.0f",
		series: []source{{"", "procs, 16 processes", "hand-offs/s", own}},
		rows: []string{
			"limit-blpop-tcp", "padlock", "padlock-string", "rueidislock-1key", "rueidislock-3key",
			"redislock-lin10", "redsync",
		},
	},
	{
		file: "redis-blocked.svg", title: "Redis, 50 processes wait for a lock that nobody releases",
		axis: "commands per second that the server gets (logarithmic)", log: true, format: "%.5g",
		series: []source{{"", "50 processes blocked for 10s", "cmds/s", medium}},
		rows:   []string{"padlock", "padlock-string", "redsync", "redislock-lin10", "rueidislock-1key"},
	},
	{
		file: "readme.svg", title: "64 waiters on Redis take one lock in turn",
		axis: "milliseconds until every waiter has had the lock once", format: "%.0f ms",
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
	shade  color.RGBA
	points []point
}

// collect takes the figures of a chart from a run. It returns nothing if the run has none of them.
func (c chart) collect(all run) []line {
	var lines []line
	for _, s := range c.series {
		l := line{label: s.label, shade: s.shade}
		for _, row := range c.rows {
			if x, ok := all[s.experiment].median(row, s.column); ok {
				l.points = append(l.points, point{row, x})
			}
		}
		if len(l.points) > 0 {
			lines = append(lines, l)
		}
	}
	return lines
}
