package main

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/padlock-go/padlock/internal/safety"
)

// most is how many failed tests may have a second try. More of them are no accident.
const most = 5

// grave finds lines that show more than a failed expectation. A broken promise of safety is known by
// the mark of package safety alone, whatever the words after it.
var grave = regexp.MustCompile(`^WARNING: DATA RACE|^panic:|^fatal error:|` + regexp.QuoteMeta(safety.Mark))

// brokeOff is what the race detector of Go 1.26 prints when it breaks off by itself in a test that
// uses testing/synctest: the timers of a bubble share one context of the detector, which two
// threads may use at once (golang/go#78156). It may also end with SIGSEGV under a timer's channel. No
// test has failed then.
var brokeOff = regexp.MustCompile(`^ThreadSanitizer: CHECK failed|^goroutine 0 .*synctest bubble|^runtime\.\(\*timer\)\.maybeRunChan\(`)

// suites check promises of safety in most of their cases, so none of their failures is excused.
var suites = []string{"drivertest", "stores/quorum"}

// second returns the tests that may have a second try, or why there is none.
func (r *run) second() (tries []test, never string) {
	if len(r.broken) > 0 {
		return nil, "it does not compile: " + strings.Join(r.broken, " ")
	}
	if len(r.failed) > most {
		return nil, fmt.Sprintf("%d failed tests", len(r.failed))
	}
	tries = slices.Clone(r.failed)
	for pkg, how := range r.ended {
		if how != "fail" {
			continue
		}
		again, never := r.judge(pkg)
		if never != "" {
			return nil, never
		}
		tries = append(tries, again...)
	}
	if len(tries) == 0 {
		return nil, "go test failed without a failed test"
	}
	return tries, ""
}

// allFailed returns the failed tests, and the packages that failed without one.
func (r *run) allFailed() []test {
	failed := slices.Clone(r.failed)
	for pkg, how := range r.ended {
		if how == "fail" && !slices.ContainsFunc(failed, func(t test) bool { return t.pkg == pkg }) {
			failed = append(failed, test{pkg: pkg})
		}
	}
	return failed
}

// judge looks at a failed package. It returns the package itself if the race detector broke off.
func (r *run) judge(pkg string) (again []test, never string) {
	isGrave, off := "", false
	for _, line := range r.output[pkg] {
		if brokeOff.MatchString(line) {
			off = true
		}
		if isGrave == "" && grave.MatchString(line) {
			isGrave = strings.TrimSpace(line)
		}
	}
	var names []string
	for _, t := range r.failed {
		if t.pkg == pkg {
			names = append(names, t.name)
		}
	}
	suite := func(name string) bool {
		return strings.HasPrefix(name, "TestContract") || strings.HasPrefix(name, "TestFaults")
	}
	switch {
	case isGrave != "":
		return nil, pkg + ": " + isGrave
	case len(names) == 0 && off:
		return []test{{pkg: pkg}}, ""
	case len(names) == 0:
		return nil, pkg + " ended without a failed test"
	case slices.Contains(suites, directory(pkg)) || slices.ContainsFunc(names, suite):
		return nil, pkg + ": a suite of promises failed: " + strings.Join(names, " ")
	}
	return nil, ""
}
