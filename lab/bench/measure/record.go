package measure

import (
	"encoding/json"
	"io"
)

// A Record is an experiment with the figures of every round, as the benches write it with -json and
// as others read it.
type Record struct {
	Name    string
	Rounds  int
	Trials  map[string][]Figures // by row, one for each round
	Errors  map[string]string    `json:",omitempty"` // by row
	Targets []Verdict            `json:",omitempty"`
}

// A Verdict is a target with the figure that was measured, or nil if there is none.
type Verdict struct {
	Target
	Value *float64 `json:",omitempty"`
	Met   bool
}

// JSON writes the record of r. It leaves out figures that are not numbers.
func (r *Result) JSON(w io.Writer) error {
	out := Record{r.Experiment.Name, r.Rounds, map[string][]Figures{}, map[string]string{}, nil}
	for row, trials := range r.Trials {
		for _, f := range trials {
			out.Trials[row] = append(out.Trials[row], f.numbers())
		}
	}
	for row, err := range r.Errors {
		out.Errors[row] = err.Error()
	}
	for _, t := range r.Experiment.Targets {
		v := Verdict{Target: t, Met: r.Met(t)}
		if x := r.Value(t); isNumber(x) {
			v.Value = &x
		}
		out.Targets = append(out.Targets, v)
	}
	return json.NewEncoder(w).Encode(out)
}
