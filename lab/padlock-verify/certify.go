package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/drivertest"
	"github.com/padlock-go/padlock/internal/safety"
	"github.com/padlock-go/padlock/lab/certificate"
	"github.com/padlock-go/padlock/lab/soak"
	"github.com/padlock-go/padlock/open"
)

// certify asks the store everything that can be asked from outside, and writes the certificate.
func (v *verification) certify(ctx context.Context) error {
	defer v.wires.host.End()
	early, stop := endable(ctx)
	defer stop()
	if v.span < certificate.MinFor {
		say(fmt.Sprintf("--for %v is short: a mistake of one write in a thousand needs --for %v or more", v.span, certificate.MinFor))
	}
	c := newCertification(v, early)
	defer c.suite.host.End()
	if err := c.askAll(ctx); err != nil {
		return err
	}
	c.paper.Seconds = rounded(time.Since(c.paper.Made))
	c.paper.Made = c.paper.Made.Truncate(time.Second)
	c.paper.Judge()
	data, err := c.paper.Encode()
	if err == nil {
		err = os.WriteFile(v.file, data, 0o644)
	}
	if err != nil {
		return err
	}
	if c.paper.Verdict == certificate.Broke {
		v.status = exitViolated
	}
	return c.paper.Show(os.Stdout)
}

// show prints a certificate.
func show(args []string) error {
	if len(args) != 1 {
		return fmt.Errorf("show: name one file; %w", errUsage)
	}
	c, err := certificate.Read(args[0])
	if err != nil {
		return err
	}
	return c.Show(os.Stdout)
}

// mustHold lists the facts of a service without which no lock is safe while all is well. Other facts
// with an advice are conditions of the certificate: they matter after a crash, or for other programs.
var mustHold = map[string]string{
	"maxmemory-policy":   "the server drops no lock that is held to make room",
	"evictions":          "the server has dropped nothing to make room",
	"role":               "the server is the one at which all programs take locks, and not a replica that lags behind",
	"standby":            "the server is the one at which all programs take locks, and not a replica that lags behind",
	"replica":            "the server is the one at which all programs take locks, and not a replica that lags behind",
	"galera":             "a lock excludes the clients of all nodes",
	"proxy":              "no proxy gives a session to several clients",
	"conditional-writes": "no write is carried out if its condition is not met",
	"table":              "all programs use one table",
	"layout":             "all programs store a name in one way",
	"collation":          "two names do not share a lock",
	"time_zone":          "the clocks of all programs that share the table agree",
}

// askAll asks all questions. An error means that there is no certificate.
func (c *certification) askAll(ctx context.Context) error {
	_, s, err := open.Parse(c.url, schemes)
	if err != nil {
		return err
	}
	if c.shown = open.Redacted(c.url, schemes); !s.Composite {
		c.shown, _, _ = strings.Cut(c.shown, "?")
	}
	c.paper.URL = c.shown
	if err := c.settings(ctx); err != nil {
		return err
	}
	opens := certificate.Question{Name: "open", Asked: "a store that checks the service when it opens takes this one, twice", Verdict: certificate.Held}
	var stores [2]driver.Store
	for i := range stores {
		if stores[i], err = openStore(ctx, c.url); err != nil {
			break
		}
		defer stores[i].Close()
	}
	if err == nil {
		err = c.prepare(ctx)
	}
	switch {
	case errors.Is(err, padlock.ErrUnavailable) && len(c.broken()) == 0:
		return err
	case err != nil:
		broke(&opens, err.Error())
		c.note(opens)
		return nil
	}
	c.note(opens)
	defer c.noteLeft(ctx)
	defer c.sweep(ctx)
	p := newProber(c, stores)
	if err := c.converse(ctx); err != nil {
		return err
	}
	c.probe(ctx, p)
	c.contract(!p.showsHolders(ctx))
	return c.underFaults(ctx)
}

// settings asks the service about itself, as "padlock doctor" does.
func (c *certification) settings(ctx context.Context) error {
	s, err := open.Store(ctx, c.url, schemes, open.BetweenProcesses(), open.ForgetSoon(), open.Lazy(), open.Lenient())
	if err != nil {
		return err // the URL is wrong: nothing was sent
	}
	defer s.Close()
	g := s.Guarantees()
	c.paper.Kind, c.paper.Promises = g.Store, promisesOf(&g)
	reporter, ok := driver.As[driver.Reporter](s)
	if !ok {
		c.skip(certificate.Question{Name: "settings", Asked: "the settings of the service are safe for locks"}, "there is no server with settings")
		return nil
	}
	found, err := reporter.Status(ctx)
	switch {
	case errors.Is(err, errors.ErrUnsupported):
	case errors.Is(err, padlock.ErrInvalid):
		c.note(certificate.Question{Name: "settings", Asked: "the settings of the service are safe for locks", Verdict: certificate.Broke, Seen: []string{err.Error()}})
	case err != nil:
		return err
	}
	for _, f := range found {
		c.paper.Service = append(c.paper.Service, certificate.Fact{Name: f.Name, Value: f.Value, Advice: f.Advice})
		name := f.Name[strings.LastIndexByte(f.Name, ' ')+1:] // behind the address of one server of several
		asked, must := mustHold[name]
		q := certificate.Question{Name: "settings/" + f.Name, Asked: asked, Verdict: certificate.Held}
		switch {
		case !must:
			continue
		case f.Value == driver.Unknown:
			c.skip(q, "the service does not show the setting to this user")
			continue
		case f.Advice != "":
			broke(&q, f.Name+" is "+f.Value+": "+f.Advice)
		}
		c.note(q)
	}
	return nil
}

// promisesOf returns the promises of a store as lines.
func promisesOf(g *driver.Guarantees) []string {
	return append([]string{
		fmt.Sprintf("survives a restart: %v, a failover: %v, a jump of its clock: %v, eviction: %v", g.SurvivesRestart, g.SurvivesFailover, g.SafeClockJump, g.SafeEviction),
		fmt.Sprintf("holds are bound to: %v; fences: %v; order of arrival: %v; leases: %v", g.Bound, g.Fence, g.FIFO, g.Lease),
	}, g.Notes...)
}

// fromOutside says why a certification cannot do what the suite of the contract can do in a test.
var fromOutside = map[string]string{
	"Harness.Restart":              "nothing is done to the server itself: it is not restarted",
	"Harness.Full":                 "nothing is done to the server itself: its memory is not filled",
	"Harness.SkewClock":            "nothing is done to the server itself: its clock is not set",
	"Harness.CutConnection":        "the suite cannot end a connection or session here; the soak cuts connections where it has a proxy",
	"Harness.Pause":                "there is no proxy between this program and the service",
	"Harness.LoseReply":            "one reply cannot be chosen from outside; the soak loses replies at random",
	"Harness.Foreign":              "no program other than padlock takes locks here",
	"holders that others see":      "the store cannot record holders",
	"a faster machine":             "this machine was too slow for a result",
	"a store that answers in time": "the service did not answer in time",
}

// contract runs the suite of the contract between padlock and its stores.
// A store that shows other holders than those of its requests is anonymous.
func (c *certification) contract(anonymous bool) {
	if c.early.Err() != nil {
		c.skip(certificate.Question{Name: "contract", Asked: "the suite of the contract"}, "the certification was ended before")
		return
	}
	say("the suite of the contract")
	h, end := c.harness(anonymous)
	defer end()
	results, err := drivertest.Ask(h, nil)
	again := results
	for run := 2; run <= runs && err == nil; run++ {
		doubtful := map[string]bool{}
		for _, r := range again {
			if r.Missing == "" && len(r.Failures) > 0 && !slices.ContainsFunc(r.Failures, isUnsafe) {
				doubtful[r.Case] = true
			}
		}
		if len(doubtful) == 0 {
			break
		}
		again, err = drivertest.Ask(h, func(name string) bool { return doubtful[name] })
		for _, r := range again {
			if i := slices.IndexFunc(results, func(old drivertest.Result) bool { return old.Case == r.Case }); doubtful[r.Case] {
				results[i] = r
			}
		}
	}
	if err != nil {
		c.note(certificate.Question{Name: "contract", Asked: "the suite of the contract", Verdict: certificate.Broke, Seen: []string{"another store does not open: " + err.Error()}})
		return
	}
	for _, r := range results {
		c.noteCase(&r)
	}
}

// runs is how often a question is asked, at most, if it broke and a busy machine may be the reason. It
// has broken if it did so each time. Two holders, or a fence that does not rise, count at once.
const runs = 3

func isUnsafe(f drivertest.Failure) bool { return strings.HasPrefix(f.Seen, safety.Mark) }

// noteCase notes what became of a case of the suite.
func (c *certification) noteCase(r *drivertest.Result) {
	q := certificate.Question{Name: r.Case, Asked: r.Clause, Verdict: certificate.Held, Seconds: rounded(r.Took)}
	switch {
	case r.Missing != "":
		c.skip(q, cmp.Or(fromOutside[r.Missing], "the store does not promise or have it: "+r.Missing))
		return
	case r.Case == "identify/place" && c.isProxied():
		c.skip(q, "each connection has a proxy, so it goes to another address")
		return
	}
	for _, f := range r.Failures {
		broke(&q, fmt.Sprintf("%s (drivertest/%s)", f.Seen, f.At))
	}
	c.note(q)
}

// underFaults runs the soak.
func (c *certification) underFaults(ctx context.Context) error {
	all := certificate.Question{Name: "soak", Asked: "the store is used by many processes, while faults are made", Verdict: certificate.Held, Counts: map[string]int{"runs": 1}}
	if c.early.Err() != nil {
		c.skip(all, "the certification was ended before")
		return nil
	}
	began := time.Now()
	report, err := c.soak(ctx, c.early)
	for run := 2; run <= runs && err == nil && onlyLate(report) && c.early.Err() == nil; run++ {
		c.wires.all, c.wires.unproxied = nil, nil
		if err = c.prepare(ctx); err == nil {
			report, err = c.soak(ctx, c.early)
		}
		all.Counts["runs"] = run
	}
	if err != nil {
		return err
	}
	all.Seconds = rounded(time.Since(began))
	maps.Copy(all.Counts, map[string]int{"grants": report.Grants, "processes": processes, "threads": processes * goroutines, "faults": report.FaultSum()})
	for kind, n := range report.Faults {
		all.Counts["fault "+kind] = n
	}
	c.note(all)
	for _, store := range c.wires.unproxied {
		c.skip(certificate.Question{Name: "soak/network", Asked: "connections of " + store + " are cut, and requests and replies are lost"}, fromOutside["Harness.Pause"])
	}
	for _, p := range promises(report) {
		q := certificate.Question{Name: "soak/" + p.invariant, Asked: p.promised, Verdict: certificate.Held, Counts: map[string]int{"violations": report.Violations[p.invariant]}}
		if !p.kept {
			broke(&q, p.measured)
			for _, found := range report.Of {
				if found.Invariant == p.invariant {
					broke(&q, found.String())
				}
			}
			q.Repeat = fmt.Sprintf("padlock-verify --store '%s' --for %v --seed %d", c.shown, c.span, c.seed)
		}
		c.note(q)
	}
	return nil
}

// onlyLate reports whether nothing was broken but what a busy machine may break, by being late.
func onlyLate(report *soak.Report) bool {
	late := 0
	for _, id := range []string{"I5", "I6", "I13"} {
		late += report.Violations[id]
	}
	return late > 0 && late == report.Sum() && report.Verdict.Illegal+report.Verdict.Unknown == 0
}
