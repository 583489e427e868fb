package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
)

// A test is a test at the top of its package. An empty name stands for the whole package.
type test struct{ pkg, name string }

// An event is a line of `go test -json`.
type event struct {
	Action, Package, Test, Output, ImportPath string
	Elapsed                                   float64
}

// A run is what one `go test` showed.
type run struct {
	green   bool
	passed  map[test]bool       // tests and their sub-tests
	failed  []test              // tests at the top
	ended   map[string]string   // how each package ended: "pass", "fail" or "skip"
	slow    map[test]float64    // seconds of the tests of 3 s and more
	skipped map[string]int      // how many tests each reason skipped
	output  map[string][]string // lines of each package that has not passed
	lines   map[test][]string   // lines of each test that has not ended
	broken  []string            // what the compiler said
}

// flags are those of both compile and test.
func flags(race string) []string {
	if race == "" {
		return nil
	}
	return []string{race}
}

// compile fills the cache of the compiler, so that no compiler takes the processors away from tests
// that wait for servers. What it finds wrong, test finds again.
func compile(race string, packages []string) {
	args := append([]string{"list", "-export", "-deps", "-test"}, flags(race)...)
	_ = exec.Command("go", append(args, packages...)...).Run()
}

// test calls `go test` with one pattern of names and reads its events.
func (g *gate) test(race string, fresh bool, packages []string, pattern string) (*run, error) {
	// -vet=off: `make lint` runs go vet over everything once.
	args := append([]string{"test", "-json", "-vet=off", "-p", "3", "-parallel", "4", "-timeout", "20m"}, flags(race)...)
	// Go's cache does not see what a test builds and executes, as the packages without -race do.
	if fresh || race == "" {
		args = append(args, "-count=1")
	}
	if pattern != "" {
		args = append(args, "-run", pattern)
	}
	cmd := exec.Command("go", append(args, packages...)...)
	cmd.Stderr = os.Stderr
	if g.thorough {
		cmd.Env = append(os.Environ(), "PADLOCK_TESTS=thorough")
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	r := newRun()
	lines := bufio.NewReader(out)
	for {
		line, err := lines.ReadBytes('\n')
		if len(line) > 0 {
			r.read(line)
		}
		if err != nil {
			break
		}
	}
	err = cmd.Wait()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return nil, err
	}
	r.green = err == nil
	return r, nil
}

func newRun() *run {
	return &run{
		passed: map[test]bool{}, ended: map[string]string{}, slow: map[test]float64{},
		skipped: map[string]int{}, output: map[string][]string{}, lines: map[test][]string{},
	}
}

func (r *run) read(line []byte) {
	var e event
	if json.Unmarshal(line, &e) != nil { // not of go test's: a line of the go command itself
		fmt.Print(string(line))
		r.broken = append(r.broken, string(line))
		return
	}
	switch e.Action {
	case "build-output":
		fmt.Print(e.Output)
	case "build-fail":
		r.broken = append(r.broken, e.ImportPath)
	case "output":
		t := test{e.Package, e.Test}
		r.lines[t] = append(r.lines[t], e.Output)
		r.output[e.Package] = append(r.output[e.Package], e.Output)
	case "pass", "fail", "skip":
		r.end(e)
	}
}

// end notes how a test or a package ended.
func (r *run) end(e event) {
	if e.Test == "" {
		r.endPackage(e)
		return
	}
	t := test{e.Package, e.Test}
	top := !strings.Contains(e.Test, "/")
	switch e.Action {
	case "pass":
		r.passed[t] = true
	case "skip":
		r.skipped[reason(r.lines[t])]++
	case "fail":
		fmt.Printf("--- %s %s\n%s", e.Package, e.Test, strings.Join(r.lines[t], ""))
		if top {
			r.failed = append(r.failed, t)
		}
	}
	if strings.Count(e.Test, "/") < 2 && e.Elapsed >= 3 {
		r.slow[t] = e.Elapsed
	}
	delete(r.lines, t)
}

func (r *run) endPackage(e event) {
	r.ended[e.Package] = e.Action
	word := map[string]string{"pass": "ok  ", "fail": "FAIL", "skip": "?   "}[e.Action]
	if e.Action == "fail" {
		r.printRest(e.Package)
	} else {
		delete(r.output, e.Package)
	}
	fmt.Printf("%s\t%s\t%.1fs\n", word, e.Package, e.Elapsed)
}

// printRest prints the lines of a failed package that belong to no ended test: of a panic, a time
// limit, a data race outside of the tests.
func (r *run) printRest(pkg string) {
	for t, lines := range r.lines {
		if t.pkg == pkg {
			fmt.Print(strings.Join(lines, ""))
			delete(r.lines, t)
		}
	}
}

// reason returns why a test was skipped: the last line that is not one of go test, without its
// place.
func reason(lines []string) string {
	why := "no reason"
	for _, l := range lines {
		l = strings.TrimSpace(l)
		if l == "" || strings.HasPrefix(l, "===") || strings.HasPrefix(l, "---") {
			continue
		}
		if _, after, found := strings.Cut(l, ".go:"); found {
			if _, text, found := strings.Cut(after, ": "); found {
				l = text
			}
		}
		why = l
	}
	return why
}
