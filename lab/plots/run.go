package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/padlock-go/padlock/lab/bench/measure"
)

// A run is the output of `-json`: the experiments in the order in which they were measured.
type run []*measure.Record

// read reads the lines of a file that are JSON. Each has one experiment. The other lines come from
// the program make and are ignored.
func read(name string) (all run, err error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	for line := range bytes.Lines(text) {
		if r := new(measure.Record); bytes.HasPrefix(line, []byte("{")) {
			if err := json.Unmarshal(line, r); err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			all = append(all, r)
		}
	}
	return all, nil
}

func (all run) text() []byte {
	var out bytes.Buffer
	lines := json.NewEncoder(&out)
	lines.SetEscapeHTML(false)
	for _, r := range all {
		lines.Encode(r) // into memory
	}
	return out.Bytes()
}

// find returns an experiment, or an empty one.
func (all run) find(name string) *measure.Record {
	if i := slices.IndexFunc(all, func(r *measure.Record) bool { return r.Name == name }); i >= 0 {
		return all[i]
	}
	return new(measure.Record)
}

// merge puts the medians of a run in the place of the published ones. An experiment that is not
// published yet joins with a line {"Name":"…"} in published.json.
func (all run) merge(added run) error {
	merged := false
	for i, old := range all {
		if now := added.find(old.Name); now.Name != "" {
			all[i], merged = now.Medians(), true
		}
	}
	if !merged {
		return errors.New("it has no experiment that is published: is it the output of a benchmark with -json?")
	}
	return nil
}
