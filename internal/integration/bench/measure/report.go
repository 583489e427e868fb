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

// DefineFlags defines -only and -json. The parameter each is what one table of the bench is called.
func DefineFlags(tableWord string) *Flags {
	f := &Flags{}
	flag.StringVar(&f.Only, "only", "", tableWord+"s whose name matches this `regexp`")
	flag.BoolVar(&f.JSON, "json", false, "write the figures of every round as JSON, one object for each "+tableWord)
	return f
}

// DefineQuick defines -quick and -rounds for a bench that has two plans. The parameters full and
// quick are the rounds of these plans, and lasts is how long the quick one takes.
func (f *Flags) DefineQuick(lasts string, full, quick int) {
	flag.BoolVar(&f.Quick, "quick", false, "measure less, in "+lasts)
	flag.IntVar(&f.rounds, "rounds", 0, fmt.Sprintf("rounds instead of %d, or of %d with -quick", full, quick))
}

// Rounds returns the value of -rounds, or else the parameter planned.
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

// A Report runs experiments and writes their results: a table each and the targets of all, or JSON.
type Report struct {
	out, progress io.Writer
	only          *regexp.Regexp
	json          bool
	results       []*Result
	err           error
}

// NewReport returns a Report that writes to out, and to progress what is being measured. It runs
// the experiments whose names match only, which is a regular expression.
func NewReport(out, progress io.Writer, only string, asJSON bool) (*Report, error) {
	chosen, err := regexp.Compile(only)
	if err != nil {
		return nil, err
	}
	return &Report{out: out, progress: progress, only: chosen, json: asJSON}, nil
}

// Run runs e and writes its result, if its name matches. If remarks is not nil, it writes what
// follows the table.
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
