package measure

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"regexp"

	"github.com/padlock-go/padlock/internal/server"
)

// A Bench is a command that measures. P is its plan: it says how much is measured.
type Bench[P any] struct {
	Name   string
	Rounds int
	Plan   P // may have been changed by flags of the bench's own
	// Start starts the servers and returns the experiments in the order in which they run. The
	// servers end with the Run.
	Start func(r *Run, p *P) ([]*Experiment, error)
}

// A Run is one run of a bench: what its flags chose, and the servers that were started for it.
type Run struct {
	server.Host
	Only          string // a regular expression for the names of experiments
	JSON          bool
	Rounds        int // 0 stands for the rounds of the plan
	Out, Progress io.Writer
}

// Main is the main function of the command. It exits with an error if the bench itself fails. A
// missed target is no error.
func (b *Bench[P]) Main() {
	r := &Run{Out: os.Stdout, Progress: os.Stderr}
	flag.StringVar(&r.Only, "only", "", "experiments whose name matches this `regexp`")
	flag.BoolVar(&r.JSON, "json", false, "write the figures of every round as JSON, one object for each experiment")
	flag.IntVar(&r.Rounds, "rounds", 0, fmt.Sprintf("`number` of rounds instead of %d", b.Rounds))
	flag.Parse()
	if err := b.Run(r, &b.Plan); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", b.Name, err)
		os.Exit(1)
	}
}

// Run measures and writes a table for each experiment, followed by the number of targets that were
// missed. With the flag -json, it writes JSON instead.
func (b *Bench[P]) Run(r *Run, p *P) error {
	defer r.End()
	only, err := regexp.Compile(r.Only)
	if err != nil {
		return err
	}
	all, err := b.Start(r, p)
	if err != nil {
		return err
	}
	rounds := b.Rounds
	if r.Rounds > 0 {
		rounds = r.Rounds
	}
	missed, targets := 0, 0
	for _, e := range all {
		if !only.MatchString(e.Name) {
			continue
		}
		record := e.Run(rounds, r.Progress)
		if r.JSON {
			err = errors.Join(err, json.NewEncoder(r.Out).Encode(record))
			continue
		}
		record.Print(r.Out, true)
		for _, v := range record.Targets {
			if targets++; !v.Met {
				missed++
			}
		}
	}
	if targets > 0 {
		fmt.Fprintf(r.Out, "\n%d targets, %d missed\n", targets, missed)
	}
	return err
}
