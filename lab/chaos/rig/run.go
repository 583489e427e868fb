package rig

import (
	"cmp"
	"context"
	"fmt"
	"regexp"
	"slices"
	"time"

	"github.com/padlock-go/padlock/lab/soak"
)

// Options say how to run a row.
type Options struct {
	Seed    uint64
	For     time.Duration
	Tail    time.Duration
	Every   time.Duration // mean time between faults
	Lanes   int           // how many faults may happen at once
	Workers int
	All     bool           // all faults, not only the covered ones
	Kinds   *regexp.Regexp // only faults whose kind matches; nil means all of them
	Load    *soak.Load
	Older   string // a directory in which several rows build each older padlock once; "" means that each row builds its own
	Say     func(string)
}

// Covered reports whether the store's guarantees include this kind of fault.
func (row *Row) Covered(kind string) bool { return !slices.Contains(row.uncovered, kind) }

// Run runs the soak once, with workers that use the Row's store while faults happen.
func (row *Row) Run(ctx context.Context, o Options) (r *soak.Run, out *soak.Outcome, err error) {
	before := soak.Count()
	site, err := NewSite(o.Workers)
	if err != nil {
		return nil, nil, err
	}
	site.older = o.Older
	defer func() {
		if bad := site.End(); err == nil {
			err = bad
		}
		if err == nil {
			out.Left(before)
		}
	}()
	if o.Say != nil {
		site.say = o.Say
	}
	set, err := row.build(site)
	if err != nil {
		return nil, nil, err
	}
	o.Workers = site.Workers // the row may need another number
	r = o.run(row, set)
	faults := set.faults
	if len(set.stages) > 0 {
		kill := r.KillWorker()
		kill.Weight = 3
		faults = append(append(faults, kill), r.StopWorker()...)
	}
	for _, f := range faults {
		if (o.All || row.Covered(f.Kind)) && (o.Kinds == nil || o.Kinds.MatchString(f.Kind)) {
			r.Faults = append(r.Faults, f)
		}
	}
	if !o.All {
		r.Faults = keepsFences(o.Seed, r.Faults)
	}
	out, err = r.Do(ctx)
	if err != nil && set.log != nil {
		said := set.log()
		err = fmt.Errorf("%w; the server said: %s", err, said[max(0, len(said)-4000):])
	}
	if err == nil && set.check != nil {
		var broken string
		if broken, err = set.check(out); broken != "" {
			out.Events = append(out.Events, soak.Event{Op: soak.Broken, At: out.To, Err: broken})
		}
	}
	if err == nil && out.To-out.From >= int64(set.enough) {
		err = set.allMet(out, site.say)
	}
	return r, out, err
}

// forgetful are the kinds of faults after which a server does not know the last fences.
var forgetful = []string{"flushall", "restart without data", backupKind, rowsDeleted, fileReplaced}

// keepsFences leaves out the faults of forgetful or clockSetBack, as the seed says, if there are both. A
// server that has forgotten a fence begins with its time, which is smaller if its clock was set back. No
// store covers both (docs/restored.md).
func keepsFences(seed uint64, faults []soak.Fault) []soak.Fault {
	isForgetful := func(f soak.Fault) bool { return slices.Contains(forgetful, f.Kind) }
	isBack := func(f soak.Fault) bool { return f.Kind == clockSetBack }
	switch {
	case !slices.ContainsFunc(faults, isForgetful) || !slices.ContainsFunc(faults, isBack):
		return faults
	case seed%2 == 0:
		return slices.DeleteFunc(faults, isForgetful)
	default:
		return slices.DeleteFunc(faults, isBack)
	}
}

// allMet returns an error if the workers of one kind got no lock.
func (set *setup) allMet(out *soak.Outcome, say func(string)) error {
	if len(set.kinds) == 0 {
		return nil
	}
	grants := out.GrantsBy(set.kindOf)
	text := "grants by workers: " + soak.Counts(grants)
	say(text)
	if slices.ContainsFunc(set.kinds, func(kind string) bool { return grants[kind] == 0 }) {
		return fmt.Errorf("not all of %v got locks; %s", set.kinds, text)
	}
	return nil
}

// run returns a soak.Run for a row. The caller has to add the faults.
func (o *Options) run(row *Row, set *setup) *soak.Run {
	r := &soak.Run{
		Name: row.Name, Seed: o.Seed, For: o.For, Tail: o.Tail, Workers: o.Workers, Goroutines: cmp.Or(set.goroutines, 8),
		Load: soak.DefaultLoad(), Stages: set.stages, Programs: set.programs, Open: set.open, Every: o.Every, Lanes: o.Lanes, Back: set.back, Restless: set.restless, Say: o.Say,
	}
	if o.Load != nil {
		r.Load = *o.Load
	}
	if set.load != nil {
		set.load(&r.Load)
	}
	return r
}
