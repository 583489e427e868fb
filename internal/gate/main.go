// Command gate runs the tests of all modules in one `go test` for each of the two ways, with the
// race detector and without, and judges what failed. CONTRIBUTING.md says what the two tiers are.
//
//	go run ./internal/gate                     # tier 1
//	go run ./internal/gate -thorough           # both tiers
//	go run ./internal/gate -thorough ./lab/... # both tiers of some packages
//
// A test that failed runs once more, alone, after all others. If it passes then, the table calls it
// flaky, docs/internals/flakes.tsv gets a line, and the run is green. judge.go says which failures
// are never excused.
package main

import (
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"
)

func main() {
	thorough := flag.Bool("thorough", false, "both tiers: also the tests that server.Thorough marks, and all packages")
	fresh := flag.Bool("fresh", os.Getenv("CI") == "true", "take no result from the cache of go test")
	flag.Parse()
	g := &gate{thorough: *thorough, fresh: *fresh}
	if err := g.all(flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "gate:", err)
		os.Exit(1)
	}
}

// A gate is one run of the tests.
type gate struct{ thorough, fresh bool }

// all runs both ways one after the other, so that the tests of one do not disturb the other.
func (g *gate) all(patterns []string) error {
	packages, err := g.packages(patterns)
	if err != nil {
		return err
	}
	var with, without []string
	for _, p := range packages {
		if matches(plain, p) {
			without = append(without, p)
		} else {
			with = append(with, p)
		}
	}
	var together report
	raced, err := g.way(&together, "-race", with)
	if err != nil {
		return err
	}
	bare, err := g.way(&together, "", without)
	if err != nil {
		return err
	}
	together.print()
	if !raced || !bare {
		return errors.New("the tests are red")
	}
	if len(patterns) > 0 {
		return nil
	}
	for _, name := range fieldPages {
		page, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		if rows := unshown(page, together.passed, g.thorough); len(rows) > 0 {
			return fmt.Errorf("%s: no test that has passed shows these rows:\n%s", name, strings.Join(rows, "\n"))
		}
	}
	return nil
}

// way runs packages with or without the race detector and reports whether they are green.
func (g *gate) way(together *report, race string, packages []string) (bool, error) {
	if len(packages) == 0 {
		return true, nil
	}
	label := "without -race"
	if race != "" {
		label = "with -race"
	}
	fmt.Printf("== %d packages %s\n", len(packages), label)
	start := time.Now()
	compile(race, packages)
	compiled := time.Now()
	r, err := g.test(race, g.fresh, packages, "")
	if err != nil {
		return false, err
	}
	fmt.Printf("== %s: compiled in %.0f s, tested in %.0f s\n", label, compiled.Sub(start).Seconds(), time.Since(compiled).Seconds())
	green := r.green || g.again(r, race, together)
	together.add(r)
	return green, nil
}

// again gives the failed tests of a run their second try, if the rule allows it.
func (g *gate) again(r *run, race string, together *report) bool {
	tries, reason := r.second()
	if reason != "" {
		fmt.Println("gate: never excused:", reason)
		together.red = append(together.red, r.allFailed()...)
		return false
	}
	green := true
	for _, t := range tries {
		fmt.Printf("gate: again, alone: %s %s\n", t.pkg, t.name)
		pattern := ""
		if t.name != "" {
			pattern = "^" + t.name + "$"
		}
		second, err := g.test(race, true, []string{t.pkg}, pattern)
		if err != nil || !second.green {
			together.red = append(together.red, t)
			green = false
			continue
		}
		maps.Copy(r.passed, second.passed)
		together.flaky = append(together.flaky, t)
		if err := note(t); err != nil {
			fmt.Fprintln(os.Stderr, "gate:", err)
			green = false
		}
	}
	return green
}

// note adds a line for a flaky test to the file of flaky tests.
func note(t test) error {
	f, err := os.OpenFile("docs/internals/flakes.tsv", os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	commit, _ := exec.Command("git", "rev-parse", "--short", "HEAD").Output()
	load, _ := os.ReadFile("/proc/loadavg") // empty where there is none
	name := t.name
	if name == "" {
		name = "the race detector broke off"
	}
	_, err = fmt.Fprintf(f, "%s\t%s\t%s\t%s\t%s\n", time.Now().UTC().Format(time.DateOnly),
		strings.TrimSpace(string(commit)), firstField(string(load)), t.pkg, name)
	return errors.Join(err, f.Close())
}

func firstField(s string) string {
	if f := strings.Fields(s); len(f) > 0 {
		return f[0]
	}
	return "-"
}

// packages lists the packages that have tests, those that take longest first: the last one would
// run alone.
func (g *gate) packages(patterns []string) ([]string, error) {
	if len(patterns) == 0 {
		var err error
		if patterns, err = everyModule(); err != nil {
			return nil, err
		}
	}
	args := append([]string{"list", "-f", "{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}}{{end}}"}, patterns...)
	cmd := exec.Command("go", args...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	packages := strings.Fields(string(out))
	if !g.thorough {
		packages = slices.DeleteFunc(packages, func(p string) bool { return matches(second, p) && !matches(exceptions, p) })
	}
	slices.SortStableFunc(packages, func(a, b string) int { return rank(a) - rank(b) })
	return packages, nil
}

// everyModule returns a pattern of all packages of each module in modules.txt.
func everyModule() ([]string, error) {
	text, err := os.ReadFile("modules.txt")
	if err != nil {
		return nil, err
	}
	var patterns []string
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line)
		if len(f) > 0 && !strings.HasPrefix(f[0], "#") {
			patterns = append(patterns, "./"+strings.TrimPrefix(f[0]+"/...", "./"))
		}
	}
	return patterns, nil
}
