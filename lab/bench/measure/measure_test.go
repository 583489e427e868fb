package measure

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"math"
	"slices"
	"strings"
	"testing"
)

func TestStatistics(t *testing.T) {
	nan := math.NaN()
	for _, c := range []struct {
		what      string
		got, want float64
	}{
		{"median of an odd number", Median([]float64{9, 1, 5}), 5},
		{"median of an even number", Median([]float64{4, 1, 2, 9}), 3},
		{"median with a failure", Median([]float64{nan, 7}), 7},
		{"median of nothing", Median([]float64{nan}), nan},
		{"equal shares", Jain([]float64{3, 3, 3}), 1},
		{"one got all", Jain([]float64{0, 8, 0, 0}), 0.25},
		{"nobody got anything", Jain([]float64{0, 0}), nan},
		{"p50", Times{4000, 1000, 3000, 2000}.Micros(0.5), 2},
		{"p99 of a few", Times{4000, 1000, 3000}.Micros(0.99), 4},
		{"p50 of none", Times{}.Micros(0.5), nan},
	} {
		if c.got != c.want && !(math.IsNaN(c.got) && math.IsNaN(c.want)) {
			t.Errorf("%s: got %v, want %v", c.what, c.got, c.want)
		}
	}
}

// fixed makes a row that gives the figures one after the other.
func fixed(name string, order *[]string, figures ...float64) Row {
	n := 0
	return Row{name, func() (Figures, error) {
		*order = append(*order, name)
		n++
		return Figures{"ms": figures[n-1]}, nil
	}}
}

func TestRoundsRotateAndRatiosAreOfTheSameRound(t *testing.T) {
	var order []string
	e := &Experiment{
		Rows: []Row{fixed("a", &order, 10, 20, 40), fixed("b", &order, 20, 60, 80), fixed("c", &order, 1, 1, 1)},
	}
	r := e.Run(3, io.Discard)
	if want := strings.Split("abcbcacab", ""); !slices.Equal(order, want) {
		t.Errorf("order %v, want %v", order, want)
	}
	if got := r.Ratio("b", "a", "ms"); got != 2 {
		t.Errorf("the ratio is %v, want 2, the median of 2, 3 and 2", got)
	}
	if got := r.Median("a", "ms"); got != 20 {
		t.Errorf("the median is %v, want 20", got)
	}
}

func TestTargetsAndFailuresArePrinted(t *testing.T) {
	e := &Experiment{
		Name: "waiting", Base: "base", Ratio: "ms", Columns: []string{"ms", "other"},
		Rows: []Row{
			fixed("base", &[]string{}, 10),
			fixed("slow", &[]string{}, 45),
			{"broken", func() (Figures, error) { return nil, errors.New("no server\nat all") }},
		},
		Targets: []Target{
			{Row: "slow", Column: "ms", Base: "base", AtMost: 4},
			{Row: "slow", Column: "ms", AtLeast: 45},
			{Row: "broken", Column: "ms", AtMost: 1e9},
		},
	}
	r := e.Run(1, io.Discard)
	for aligned, want := range map[bool]string{
		false: `
**waiting**, rounds: 1

|  | ms | other | × base | target |
|---|---|---|---|---|
| base | 10 | – | 1 |  |
| slow | 45 | – | 4.50 | 4.50 × base ≤ 4 **missed**; ms 45 ≥ 45 met |
| broken | – | – | – | ms – ≤ 1,000,000,000 **missed**; FAILED: no server |
`,
		true: "| slow   | 45 | –     | 4.50   | 4.50 × base",
	} {
		var out bytes.Buffer
		if r.Print(&out, aligned); !strings.Contains(out.String(), want) {
			t.Errorf("got\n%swant\n%s", out.String(), want)
		}
	}
	if text, err := json.Marshal(r); err != nil || !strings.Contains(string(text), `"broken":"no server\nat all"`) {
		t.Errorf("the failure is not in the JSON: %s, %v", text, err)
	}
}

func TestFiguresAreReadable(t *testing.T) {
	for x, want := range map[float64]string{
		0: "0", 2: "2", 0.00432: "0.0043", 0.0649: "0.065", 0.456: "0.46", 9.876: "9.88", 12.34: "12.3", 999.6: "1,000",
		1234567: "1,234,567", -331.2: "-331", -1234: "-1,234",
	} {
		if got := Figure(x); got != want {
			t.Errorf("%v is written as %q, want %q", x, got, want)
		}
	}
}

func TestReport(t *testing.T) {
	experiments := func() (all []*Experiment) {
		for _, name := range []string{"files", "memory", "memory of waiters"} {
			all = append(all, &Experiment{
				Name: name, Columns: []string{"ms"}, Rows: []Row{fixed("row", &[]string{}, 10, 20)},
				Targets: []Target{{Row: "row", Column: "ms", AtMost: 12}},
			})
		}
		return all
	}
	bench := Bench[string]{Name: "test", Rounds: 2, Start: func(*Run, *string) ([]*Experiment, error) { return experiments(), nil }}
	written := func(only string, asJSON bool) (text, progress string) {
		var out, steps bytes.Buffer
		r := &Run{Out: &out, Progress: &steps, Only: only, JSON: asJSON}
		if err := bench.Run(r, nil); err != nil {
			t.Error(err)
		}
		return out.String(), steps.String()
	}
	text, progress := written("^memory", false)
	for what, n := range map[string]int{
		"\n**files**, rounds: 2": 0, "\n**memory**, rounds: 2": 1, "\n**memory of waiters**, rounds: 2": 1,
		"\n2 targets, 2 missed\n": 1,
	} {
		if got := strings.Count(text, what); got != n {
			t.Errorf("%q is %d times in the report, want %d:\n%s", what, got, n, text)
		}
	}
	if got := strings.Count(progress, " round "); got != 4 {
		t.Errorf("the progress of two experiments with two rounds each is\n%s", progress)
	}
	text, _ = written("", true)
	lines := strings.Split(strings.TrimSpace(text), "\n")
	for _, line := range lines {
		if !json.Valid([]byte(line)) || !strings.HasPrefix(line, `{"Name":`) {
			t.Errorf("this line is no JSON object: %s", line)
		}
	}
	if len(lines) != 3 {
		t.Errorf("three experiments make %d lines of JSON", len(lines))
	}
	for _, r := range []Run{{Only: "("}, {Out: failing{}, JSON: true}} {
		r.Progress = io.Discard
		if err := bench.Run(&r, nil); err == nil {
			t.Errorf("%+v is no error: a broken regular expression, or JSON that could not be written", r)
		}
	}
}

// Most limits the rounds.
func TestMost(t *testing.T) {
	e := &Experiment{Rows: []Row{fixed("a", &[]string{}, 1, 1)}, Most: 1}
	if r := e.Run(2, io.Discard); len(r.Trials["a"]) != 1 || r.Rounds != 1 {
		t.Errorf("%d rounds", r.Rounds)
	}
}

// failing is a writer that cannot write.
type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, errors.New("the disk is full") }
