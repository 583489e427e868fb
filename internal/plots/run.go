package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"slices"
	"strings"
)

// A run is the output of `-json`: the experiments by name.
type run map[string]experiment

// An experiment is one table of a benchmark. Each row has one trial per round, and each trial has
// its figures by column.
type experiment struct {
	Name   string
	Rounds int
	Trials map[string][]map[string]float64
}

// readRun reads the lines of r that are JSON. Each has one experiment. The other lines come from
// the program make and are ignored.
func readRun(r io.Reader) (run, error) {
	all := run{}
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 64<<20)
	for lines.Scan() {
		if !bytes.HasPrefix(lines.Bytes(), []byte("{")) {
			continue
		}
		var e experiment
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			return nil, err
		}
		all[e.Name] = e
	}
	all.addCore()
	all.addShares()
	return all, lines.Err()
}

// median returns the median of a row's figure over the rounds. It returns false if no round has the
// figure.
func (e experiment) median(row, column string) (float64, bool) {
	var values []float64
	for _, trial := range e.Trials[row] {
		if x, ok := trial[column]; ok {
			values = append(values, x)
		}
	}
	if len(values) == 0 {
		return 0, false
	}
	slices.Sort(values)
	return (values[(len(values)-1)/2] + values[len(values)/2]) / 2, true
}

// coreName is the name of an experiment that is made from other experiments. It shows pairs of
// their rows on one axis, in microseconds.
const coreName = "core"

// corePairs are the pairs of rows, with their names in the chart.
var corePairs = []struct{ label, experiment, column, padlock, other string }{
	{"file lock | gofrs/flock", "file, uncontended", "ns/op", "filestore (driver)", "gofrs/flock"},
	{"400 processes | blocking flock(2)", "file, waiting processes", "µs/hand-over", "padlock over filestore, 400", "blocking flock(2), 400"},
	{"memory lock | channel", "memory, uncontended", "ns/op", "padlock over memstore", "channel semaphore"},
	{"1,000 goroutines | channel", "memory, 1000 waiting goroutines", "ns/hand-over", "padlock over memstore", "unbuffered channel"},
}

// addCore adds the experiment coreName, with the pairs that the run has.
func (all run) addCore() {
	core := experiment{Name: coreName, Trials: map[string][]map[string]float64{}}
	for _, pair := range corePairs {
		padlock, ok1 := all[pair.experiment].median(pair.padlock, pair.column)
		other, ok2 := all[pair.experiment].median(pair.other, pair.column)
		if !ok1 || !ok2 {
			continue
		}
		if pair.column != "µs/hand-over" {
			padlock, other = padlock/1000, other/1000
		}
		core.Trials[pair.label] = []map[string]float64{{"padlock": padlock, "other": other}}
	}
	all[coreName] = core
}

// addShares adds a figure to every trial of the uncontended experiments. The figure is the row's
// operations per second, divided by those of the row of the limit in the same round. Published
// medians already contain it.
func (all run) addShares() {
	const limit = "limit-rueidis-1conn"
	for name, e := range all {
		if !strings.HasPrefix(name, "uncontended, ") {
			continue
		}
		for _, trials := range e.Trials {
			for round, figures := range trials {
				if round < len(e.Trials[limit]) && figures["ops/s"] > 0 && e.Trials[limit][round]["ops/s"] > 0 {
					figures["share"] = figures["ops/s"] / e.Trials[limit][round]["ops/s"]
				}
			}
		}
	}
}
