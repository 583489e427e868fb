package measure

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"regexp"
)

// Flags are the flags that the benches share.
type Flags struct {
	Only  string // a regular expression for the names of experiments
	JSON  bool
	Quick bool

	rounds int
}

// DefineFlags defines the flags -only and -json. Their help texts name the parts of the bench,
// which are experiments in some benches and tables in others. So tableWord is "experiment" or
// "table".
func DefineFlags(tableWord string) *Flags {
	f := &Flags{}
	flag.StringVar(&f.Only, "only", "", tableWord+"s whose name matches this `regexp`")
	flag.BoolVar(&f.JSON, "json", false, "write the figures of every round as JSON, one object for each "+tableWord)
	return f
}

// DefineQuick defines the flags -quick and -rounds for a bench that has a full and a quick plan.
// The help for the flags says how many rounds each of the plans has, and how long the quick plan
// takes.
func (f *Flags) DefineQuick(quickTime string, fullRounds, quickRounds int) {
	flag.BoolVar(&f.Quick, "quick", false, "measure less, in "+quickTime)
	flag.IntVar(&f.rounds, "rounds", 0, fmt.Sprintf("rounds instead of %d, or of %d with -quick", fullRounds, quickRounds))
}

// Rounds returns the value of -rounds. If that flag was not given, it returns planned, the number
// of rounds in the plan.
func (f *Flags) Rounds(planned int) int {
	if f.rounds > 0 {
		return f.rounds
	}
	return planned
}

// ExitIf ends the process if the bench itself has failed.
func ExitIf(bench string, err error) {
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", bench, err)
		os.Exit(1)
	}
}

// A Report runs experiments and writes their results. It writes a table for each experiment,
// followed by a table of all targets. With the flag -json, it writes JSON instead.
type Report struct {
	out, progress io.Writer
	only          *regexp.Regexp
	json          bool
	results       []*Result
	err           error
}

// NewReport returns a Report that writes results to out, and messages about its progress to
// progress. The Report runs only the experiments whose names match pattern, a regular expression.
func NewReport(out, progress io.Writer, pattern string, asJSON bool) (*Report, error) {
	chosen, err := regexp.Compile(pattern)
	if err != nil {
		return nil, err
	}
	return &Report{out: out, progress: progress, only: chosen, json: asJSON}, nil
}

// Run runs e and writes the result. If the flag -only excludes e by its name, Run does nothing. If
// remarks is not nil, Run calls it after the table, to write more text.
func (r *Report) Run(e *Experiment, rounds int, remarks func(io.Writer, *Result)) {
	if !r.only.MatchString(e.Name) {
		return
	}
	result := e.Run(rounds, r.progress)
	r.results = append(r.results, result)
	if r.json {
		r.err = errors.Join(r.err, result.JSON(r.out))
		return
	}
	result.Print(r.out)
	if remarks != nil {
		remarks(r.out, result)
	}
}

// End writes the targets. It returns an error if JSON could not be written. A missed target is no
// error.
func (r *Report) End() error {
	if !r.json {
		PrintTargets(r.out, r.results)
	}
	return r.err
}
