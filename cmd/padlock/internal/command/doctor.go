package command

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/cmd/padlock/internal/doctor"
)

const doctorLong = `doctor checks whether a store is as safe for locks as it seems: the settings of the
server, the file system, the network and the clocks. For each finding it prints the
fact, why it matters for a lock, and what to do. A fact that doctor cannot find out
is reported as unknown.

doctor takes and releases locks of its own, PADLOCK-DOCTOR… (--name), and changes
nothing else. Run it on a machine that uses the locks, as the user that uses them.
It takes a few seconds, because it watches the clocks.

--accept leaves a known finding out of the exit status, so that a monitor can run
doctor. --quick only takes a lock and releases it, for a check every few seconds.

Exit status:
  0    no problems were found
  1    there are problems, or a finding is unknown
  64   the command line or the store's URL is wrong
  74   the output could not be written`

// diagnosis is one finding in JSON.
type diagnosis struct {
	Check string `json:"check"`
	Store string `json:"store"`         // the URL of the store, or one of its servers, without secrets
	State string `json:"state"`         // good, problem, unknown or accepted
	Seen  string `json:"seen"`          // what was seen
	Why   string `json:"why,omitempty"` // why that matters for a lock
	Do    string `json:"do,omitempty"`  // what to do about it
}

// examination holds the flags of doctor.
type examination struct {
	ttl, measure seconds
	name         string
	accept       []string
	quick        bool
}

func (a *app) doctorCommand() *cobra.Command {
	set := &examination{ttl: seconds{d: padlock.DefaultTTL}, measure: seconds{d: 2 * time.Second}}
	c := &cobra.Command{
		Use:   "doctor [FLAGS]",
		Short: "Check whether a store is safe for locks",
		Long:  strings.ReplaceAll(doctorLong, "PADLOCK-DOCTOR", "padlock-doctor"),
		Example: `  padlock doctor
  PADLOCK_STORE=rediss://db7 padlock doctor --accept failover
  padlock doctor --json --measure 30s | jq 'select(.state != "good")'`,
		DisableFlagsInUseLine: true,
		Args:                  noArgs,
		RunE:                  func(c *cobra.Command, _ []string) error { return a.doctor(c.Context(), set) },
	}
	f := c.Flags()
	f.SortFlags = false
	f.BoolVar(&set.quick, "quick", false, "only take a lock and release it, once: a cheap check for a monitor")
	f.StringSliceVar(&set.accept, "accept", nil, "ignore findings of the check `NAME` in the exit status; may be repeated")
	f.Var(&set.measure, "measure", "watch the clocks for `SECONDS` (default 2)")
	f.Var(&set.ttl, "ttl", "judge round trips for locks with a lease of `SECONDS` (default 30)")
	f.StringVar(&set.name, "name", "padlock-doctor", "try locks whose names begin with `NAME`")
	return c
}

func (a *app) doctor(ctx context.Context, set *examination) error {
	url, err := a.url()
	if err != nil {
		return noURL("", err)
	}
	if set.quick {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, a.quickPatience)
		defer cancel()
	}
	ctx, stop := interruptible(ctx)
	found, err := doctor.Examine(ctx, url, doctor.Options{Open: a.openStore, Schemes: a.schemes, Name: set.name, TTL: set.ttl.d, Measure: set.measure.d, Quick: set.quick})
	if s := stop(); s != nil {
		return interruptedBy(s, set.name)
	}
	if errors.Is(err, padlock.ErrInvalid) {
		return a.explain("", err)
	}
	if err != nil {
		return err
	}
	return a.tellFindings(found, set.accept)
}

func (a *app) tellFindings(found []doctor.Finding, accept []string) error {
	counts := map[string]int{}
	for i := range found {
		f := &found[i]
		d := diagnosis{f.Check, f.Of, string(f.State), f.Seen, f.Why, f.Do}
		if f.State != doctor.Good && slices.Contains(accept, f.Check) {
			d.State = "accepted"
		}
		counts[d.State]++
		if err := a.tellFinding(&d, i == 0 || found[i-1].Of != f.Of); err != nil {
			return err
		}
	}
	if counts["problem"]+counts["unknown"] > 0 {
		a.status = 1
	}
	if a.json {
		return nil
	}
	problems := "problems"
	if counts["problem"] == 1 {
		problems = "problem"
	}
	_, err := fmt.Fprintf(a.stdout, "\n%d good, %d %s, %d unknown, %d accepted\n", counts["good"], counts["problem"], problems, counts["unknown"], counts["accepted"])
	return err
}

// tellFinding prints a finding. If heading is set, it prints the name of the store first.
func (a *app) tellFinding(d *diagnosis, heading bool) error {
	if a.json {
		return a.print(a.stdout, d)
	}
	text := ""
	if heading {
		text = d.Store + "\n"
	}
	state := d.State
	if state == "problem" {
		state = "PROBLEM"
	}
	text += fmt.Sprintf("  %-8s  %-13s  %s\n", state, d.Check, visible(d.Seen))
	if d.Why != "" {
		text += fmt.Sprintf("  %23s  why: %s\n  %23s  do:  %s\n", "", d.Why, "", d.Do)
	}
	_, err := fmt.Fprint(a.stdout, text)
	return err
}
