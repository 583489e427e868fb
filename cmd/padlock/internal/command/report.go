package command

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/cmd/padlock/internal/doctor"
	"github.com/padlock-go/padlock/observe/sampler"
)

const reportLong = `report collects what a person needs who asks why NAME is stuck: the next step, who
holds the name and who waits, the last runs, what doctor finds at the store, and the
versions. Without NAME it is about all locks of the store. It changes nothing but what
doctor changes, and takes a few seconds.

The next step is the safest one that can help: wait, ask the holder, end it, break its
lock, or mend the server. Names, labels, hosts and process numbers are in the report, and
passwords are not. Send it to a colleague as it is.

Exit status:
  0    done, whatever the report says
  64   the command line or the store's URL is wrong
  74   the output could not be written`

func (a *app) reportCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "report [NAME]",
		Short: "Collect all that is known about a stuck lock, with the next step",
		Long:  reportLong,
		Example: `  padlock report nightly-report
  padlock report nightly-report > report.txt`,
		DisableFlagsInUseLine: true,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				return nil
			}
			return oneName(c, args)
		},
		ValidArgsFunction: a.completeName,
		RunE: func(c *cobra.Command, args []string) error {
			ctx, stop := interruptible(c.Context())
			err := a.report(ctx, strings.Join(args, ""))
			if s := stop(); s != nil {
				return interruptedBy(s, strings.Join(args, ""))
			}
			return err
		},
	}
}

// section is one part of a report: what another verb prints.
type section struct {
	title string
	text  strings.Builder
}

// reported is the first line of a report in JSON. The other lines are those of the verbs.
type reported struct {
	Event string `json:"event"`
	named
	Next  string    `json:"next"`
	Do    []string  `json:"do,omitempty"` // command lines to copy
	Store string    `json:"store"`
	Host  string    `json:"host"`
	Time  time.Time `json:"time"`
}

func (a *app) report(ctx context.Context, name string) error {
	url, err := a.url()
	if err != nil {
		return noURL(name, err)
	}
	if err := a.urlAsName(name); err != nil {
		return err
	}
	now := time.Now()
	var found []doctor.Finding
	state, unknown := a.stateFor(ctx, name)
	sections := []*section{
		a.section("Who has it", func(b *app) error {
			if name == "" {
				return b.list(ctx, "", "")
			}
			return b.showStatus(ctx, 0, name)
		}),
		a.section("The last runs (padlock run --record)", func(b *app) error { return b.showHistory(ctx, name, &past{most: 10}) }),
		a.section("The store", func(b *app) (err error) {
			found, err = doctor.Examine(ctx, url, doctor.Options{Open: a.openStore, Schemes: a.schemes, Name: "padlock-doctor", TTL: padlock.DefaultTTL, Measure: time.Second})
			if err != nil {
				return err
			}
			return b.tellFindings(found, nil)
		}),
		a.section("The program", func(b *app) error { return b.printVersion() }),
	}
	host, _ := os.Hostname()
	out := reported{Event: "report", named: newNamed(name), Store: a.storeName(), Host: host, Time: now.UTC()}
	out.Next, out.Do = nextStep(name, state, unknown, found, host, now)
	return a.tellReport(&out, sections)
}

// stateFor looks at the name, or returns why that cannot be done.
func (a *app) stateFor(ctx context.Context, name string) (*sampler.Name, error) {
	l, err := a.looker(ctx, name)
	if err != nil {
		return nil, err
	}
	defer a.close(l)
	if name == "" {
		return nil, nil
	}
	n, err := sampler.LookAll(ctx, l, name, a.slotPatience)
	if err != nil {
		return nil, err
	}
	return &n, nil
}

// section lets another verb write a part of the report.
func (a *app) section(title string, verb func(b *app) error) *section {
	s := &section{title: title}
	b := *a
	b.stdout, b.stderr, b.opened = &s.text, &s.text, nil
	if err := verb(&b); err != nil {
		var f *failure
		if errors.As(err, &f) {
			b.say(f.note)
		} else {
			b.say(note{Event: "error", Message: reason(err)})
		}
	}
	return s
}

func (a *app) tellReport(out *reported, sections []*section) error {
	if a.json {
		if err := a.print(a.stdout, out); err != nil {
			return err
		}
	} else {
		about := "the locks of"
		if out.Name != "" {
			about = show(out.Name) + " in"
		}
		fmt.Fprintf(a.stdout, "Report about %s %s, made on %s at %s\n\nNext step: %s\n", about, out.Store, show(out.Host), out.Time.Format(time.RFC3339), visible(out.Next))
		for _, line := range out.Do {
			fmt.Fprintln(a.stdout, "  "+visible(line))
		}
	}
	for _, s := range sections {
		text := s.text.String()
		if !a.json {
			if text == "" {
				text = "nothing\n"
			}
			text = "\n" + s.title + "\n\n" + text
		}
		if _, err := fmt.Fprint(a.stdout, text); err != nil {
			return err
		}
	}
	return nil
}

// nextStep returns the safest step that can help, and the command lines for it. The first row that
// applies counts:
//
//	what is known                          the step
//	the store waits after its restart      wait
//	a newer padlock has written the lock   upgrade, or go back as the page says
//	the store does not answer              mend the server
//	it answers, and gives no locks         mend the server
//	no name is given                       look at the names that are stuck
//	the name is free                       look for another store, or for a problem of the server
//	the name cools down                    wait
//	the holder is no padlock               find it
//	the holder is a process of this host   it lives: ask it, then end it. It is dead: wait, then break
//	the holder is on another host          look whether it lives, and then the same
func nextStep(name string, n *sampler.Name, unknown error, found []doctor.Finding, host string, now time.Time) (string, []string) {
	switch broken := problems(found, "reach", "rights", "room", "role"); {
	case guarded(unknown):
		return "wait: " + reason(unknown) + ". Until then nobody gets a lock. After a restored backup, look first on every host whether a job of before still runs.", nil
	case newerFormat(unknown):
		return "finish the upgrade: " + reason(unknown) + ". Nothing is broken. docs/stuck.md says how to stay with the older version.", []string{"padlock --version"}
	case unknown != nil:
		return "mend the store, which cannot tell who holds a lock (" + reason(unknown) + "). Break nothing before it answers.", []string{"padlock doctor"}
	case len(broken) > 0:
		return "mend the store, which answers, but gives no locks: " + broken[0].Seen + ". What doctor says: " + broken[0].Do + ".", []string{"padlock doctor"}
	case n == nil:
		return "choose a name below, and make its report.", []string{"padlock report NAME"}
	}
	holds := n.Blocking(0)
	if len(holds) == 0 && n.HeldSlots() > 0 {
		holds = n.Holds
	}
	if len(holds) == 0 {
		return "nobody holds the name in this store. If a job waits all the same, it looks at another store: compare this one with that of the job.", []string{"padlock stores --used"}
	}
	return stepFor(name, &holds[0], n.Fence, host, now)
}

// problems returns the problems that the given checks have found.
func problems(found []doctor.Finding, checks ...string) (bad []doctor.Finding) {
	for _, f := range found {
		if f.State == doctor.Problem && slices.Contains(checks, f.Check) {
			bad = append(bad, f)
		}
	}
	return bad
}

// stepFor is nextStep for one hold.
func stepFor(name string, h *sampler.Hold, fence uint64, host string, now time.Time) (string, []string) {
	word, end := show(name), endOfHold(h.Hold)
	breaking := "padlock break " + word
	if h.Slot >= 0 {
		breaking = fmt.Sprintf("padlock break --slot %d %s", h.Slot, word)
	} else if fence > 0 {
		breaking = fmt.Sprintf("padlock break --fence %d %s", fence, word)
	}
	look := fmt.Sprintf("ps -o pid,lstart,args -p %d", h.PID)
	ask := "padlock ask --wait 60 --reason \"it is stuck\" " + word
	switch {
	case h.Cooling:
		return "wait: the work has ended, and the name is kept" + endText(h.Until, now) + ". If it must be free before that, end the cool-down.", []string{breaking}
	case h.Foreign || h.Host == "" && h.PID == 0:
		return "find the holder: " + holderName(h.Hold) + " has the lock. Ask or end that program; break nothing that you have not found.", nil
	case h.Host != host:
		return fmt.Sprintf("look on %s whether process %d lives, and began before %s. If it lives, ask it to leave; if it hangs, end it there. If it is dead, or its host is gone, %s.", show(h.Host), h.PID, clock(h.Since, now), afterDeath(end, now)),
			[]string{look + "    # on " + show(h.Host), ask + "    # if it lives", breaking + "    # if it or its host is dead"}
	case lives(h.PID):
		return fmt.Sprintf("process %d of this host lives. If it works, wait, or ask it to leave; if it hangs, end it. Break its lock only if it cannot be ended.", h.PID),
			[]string{look, ask, fmt.Sprintf("kill %d", h.PID)}
	}
	return fmt.Sprintf("process %d of this host is dead (in a container, its number may be another): %s.", h.PID, afterDeath(end, now)), []string{look, breaking}
}

// afterDeath says when the lock of a dead process ends.
func afterDeath(end, now time.Time) string {
	if end.IsZero() {
		return "its lock has no lease: a process that it started may have it; on files, fuser -v FILE names it"
	}
	return "wait: its lock ends" + strings.TrimPrefix(endText(end, now), " until") + " by itself; break it only if that is too late"
}

// lives reports whether a process of this host lives. It may be another one with the same number.
func lives(pid int) bool {
	p, err := os.FindProcess(pid)
	if err != nil || runtime.GOOS == "windows" {
		return err == nil
	}
	err = p.Signal(syscall.Signal(0))
	return err == nil || errors.Is(err, syscall.EPERM)
}
