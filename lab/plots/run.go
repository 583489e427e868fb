package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"strings"

	"github.com/padlock-go/padlock/lab/bench/measure"
)

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
		var e measure.Record
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			return nil, err
		}
		all[e.Name] = e
	}
	all.addPairs()
	all.addShares()
	return all, lines.Err()
}

// addShares adds the figure "share" to every trial of the uncontended experiments. The share is the
// row's operations per second, divided by the operations per second of the row
// "limit-rueidis-1conn" in the same round. Published medians already contain the share.
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
