package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/padlock-go/padlock/internal/safety"
)

// said makes what `go test -json` would say of a failed package: its lines, and its failed tests.
func said(pkg string, lines []string, failed ...string) *run {
	r := newRun()
	read := func(e event) {
		e.Package = root + "/" + pkg
		line, _ := json.Marshal(e)
		r.read(line)
	}
	for _, l := range lines {
		read(event{Action: "output", Output: l + "\n"})
	}
	for _, name := range failed {
		read(event{Action: "fail", Test: name})
	}
	read(event{Action: "fail"})
	return r
}

// told returns the lines of a test that prints what report reports.
func told(report func(safety.T)) []string {
	var r reporter
	report(&r)
	return r
}

type reporter []string

func (r *reporter) Helper() {}

func (r *reporter) Errorf(format string, args ...any) {
	*r = append(*r, "    x_test.go:9: "+fmt.Sprintf(format, args...))
}

func TestExcused(t *testing.T) {
	for _, c := range []struct {
		what  string
		run   *run
		never string // a part of the reason, or "" for a second try
	}{
		{"an expectation", said("stampede", []string{"    x_test.go:3: got 2, want 3"}, "TestX"), ""},
		{"five of them", said("stampede", nil, "A", "B", "C", "D", "E"), ""},
		{"six of them", said("stampede", nil, "A", "B", "C", "D", "E", "F"), "6 failed tests"},
		{"a race in a bubble", said("session", []string{"ThreadSanitizer: CHECK failed: tsan_rtl.cpp:327"}), ""},
		{"a race in a bubble, under a timer", said("session", []string{"SIGSEGV: segmentation violation", "runtime.(*timer).maybeRunChan(0xc0, 0xc1)"}), ""},
		{"a race in a bubble and a test", said("session", []string{"ThreadSanitizer: CHECK failed: tsan_rtl.cpp:327"}, "TestX"), ""},
		{"no test", said("session", nil), "without a failed test"},
		{"two holders", said("session", told(func(t safety.T) { safety.TwoHold(t, "a and b") }), "TestX"), "two hold"},
		{"too many of them", said("session", told(func(t safety.T) { safety.Refused(t, nil, "n") }), "TestX"), "is not free"},
		{"a falling fence", said("fence", told(func(t safety.T) { safety.Rises(t, uint64(8), 9, "x") }), "TestX"), "fence 8 after 9"},
		{"a fence below", said("fence", told(func(t safety.T) { safety.Keeps(t, uint64(8), 9) }), "TestX"), "fence 8 after 9"},
		{"too early", said("fence", told(func(t safety.T) { safety.TooEarly(t, "x") }), "TestX"), "too early"},
		{"another promise", said("fence", told(func(t safety.T) { safety.Broken(t, "x") }), "TestX"), "x"},
		{"a fence that rises", said("fence", told(func(t safety.T) { safety.Rises(t, uint64(9), 8) }), "TestX"), ""},
		{"words alone", said("fence", []string{"    x_test.go:9: after fence 9 came 8"}, "TestX"), ""},
		{"a data race", said("session", []string{"WARNING: DATA RACE"}, "TestX"), "DATA RACE"},
		{"a panic", said("session", []string{"panic: nil map"}, "TestX"), "panic"},
		{"a time limit", said("session", []string{"panic: test timed out after 20m0s"}), "timed out"},
		{"the suite", said("stores/redisstore", nil, "TestContract"), "suite of promises"},
		{"faults", said("stores/etcdstore", nil, "TestFaults"), "suite of promises"},
		{"drivertest", said("drivertest", nil, "TestX"), "suite of promises"},
		{"a quorum", said("stores/quorum", nil, "TestX"), "suite of promises"},
	} {
		tries, never := c.run.second()
		if (never == "") != (c.never == "") || !strings.Contains(never, c.never) {
			t.Errorf("%s: never excused because %q, want %q", c.what, never, c.never)
		}
		if never == "" && len(tries) == 0 {
			t.Errorf("%s: there is nothing to try again", c.what)
		}
	}
	broken := newRun()
	broken.read([]byte(`{"ImportPath":"x","Action":"build-fail"}`))
	if _, never := broken.second(); !strings.Contains(never, "compile") {
		t.Errorf("a compile error: %q", never)
	}
}

func TestTiers(t *testing.T) {
	for dir, want := range map[string]bool{
		"internal/integration/sqlstore": false, "internal/integration/web": true, "lab/bench/measure": false,
		"lab/bench/core": true, "lab/chaos": false, "lab/chaos/mutants": true, "stores/redisstore": false,
	} {
		if pkg := root + "/" + dir; (matches(second, pkg) && !matches(exceptions, pkg)) != want {
			t.Errorf("%s is in tier 2: want %v", dir, want)
		}
	}
	if directory(root) != "." || !matches(plain, root+"/cmd/padlock/internal/top") || matches(plain, root) {
		t.Error("the lists of packages are read wrongly")
	}
}
