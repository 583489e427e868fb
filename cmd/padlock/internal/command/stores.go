package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/open"
	"github.com/padlock-go/padlock/storekit/storeurl"
)

const storesLong = `stores lists the kinds of stores, how their URLs begin, and what each promises. With
URL it shows that store in full: what it promises as configured, and what its server
reports. --used does the same for the store that the other verbs use.

  LEASE       a lock ends by itself if it is not renewed, so acquire works
  ENDS WITH   what else ends a lock
  RESTART     locks are kept when the server, or the machine, restarts
  FAILOVER    locks are kept when a replica takes over
  CLOCK STEP  a clock that is set does not give a lock to two holders
  EVICTION    a full store drops no locks
  FENCE       the number that grows with each holder is never reset (durable)
  SHARED      run --shared works
  IN ORDER    waiters get the lock in order of arrival, over all processes
  COOL-DOWN   run --at-least and --cool-down work

padlock stores URL explains "partly".

The table has the stores of this program. padlock has most of them; padlock-all has all,
and padlock runs it for a URL that needs it.`

// kinds returns the stores that several processes can share. A store whose guarantees depend on its
// URL is opened with its example URL. No server is contacted. Stores made of other stores come last.
func (p *program) kinds(ctx context.Context) ([]promised, error) {
	var list, composite []promised
	for _, s := range open.Known(p.schemes) {
		if s.InProcess {
			continue
		}
		g, err := p.guaranteesOf(ctx, &s)
		if err != nil {
			return nil, err
		}
		row := newPromised(g)
		row.Schemes, row.Help, row.Example = slices.Clone(s.Names), s.Help, s.Example
		for _, dsn := range s.Symfony {
			row.Schemes = append(row.Schemes, "symfony+"+dsn)
		}
		if s.Composite {
			composite = append(composite, row)
		} else {
			list = append(list, row)
		}
	}
	return append(list, composite...), nil
}

func (p *program) guaranteesOf(ctx context.Context, s *storeurl.Scheme) (padlock.Guarantees, error) {
	if s.Guarantees != nil {
		return s.Guarantees(), nil
	}
	sample, err := open.Store(ctx, s.Example, p.schemes, open.Lazy())
	if err != nil {
		return padlock.Guarantees{}, err
	}
	return sample.Guarantees(), sample.Close()
}

// promised are guarantees in JSON.
type promised struct {
	Schemes  []string  `json:"schemes,omitempty"` // only in the table
	Help     string    `json:"help,omitempty"`    // only in the table
	Example  string    `json:"example,omitempty"` // only in the table
	URL      string    `json:"url,omitempty"`     // only for one store; without secrets
	Store    string    `json:"store"`
	Lease    bool      `json:"lease"`
	EndsWith string    `json:"ends_with"`         // what ends a hold besides the end of its lease: nothing, connection or process
	Restart  string    `json:"survives_restart"`  // yes, partly or no
	Failover string    `json:"survives_failover"` // yes, partly or no
	ClockSet string    `json:"safe_clock_jump"`
	Eviction string    `json:"safe_eviction"`
	Fence    string    `json:"fence"`        // none, per session or durable
	OneFence string    `json:"shared_fence"` // whether readers that hold the lock together have the same fence: yes, partly or no
	Shared   bool      `json:"shared"`
	Promote  string    `json:"promotion"` // none, re-grant or atomic
	FIFO     bool      `json:"fifo"`
	CoolDown bool      `json:"cool_down"`
	Keys     bool      `json:"keys"`                          // padlock acquire works
	MaxName  int       `json:"max_name_bytes"`                // the longest name
	DeadWait float64   `json:"dead_waiter_seconds,omitempty"` // how long a dead waiter delays those behind it; 0 without a queue
	MinTTL   float64   `json:"min_ttl_seconds,omitempty"`
	MaxTTL   float64   `json:"max_ttl_seconds,omitempty"`
	Notes    []string  `json:"notes"`
	Found    []finding `json:"found,omitempty"` // facts that the server reported
}

// finding is a fact that a server reports.
type finding struct {
	Name   string `json:"name"`
	Value  string `json:"value"`
	Advice string `json:"advice,omitempty"`
}

func newPromised(g padlock.Guarantees) promised {
	p := promised{
		Store: g.Store, Lease: g.Lease, EndsWith: g.Bound.String(),
		Restart: g.SurvivesRestart.String(), Failover: g.SurvivesFailover.String(),
		ClockSet: g.SafeClockJump.String(), Eviction: g.SafeEviction.String(), Fence: g.Fence.String(), OneFence: g.SharedFence.String(),
		Shared: g.Shared, Promote: g.Promotion.String(), FIFO: g.FIFO, CoolDown: g.CoolDown,
		Keys: g.Bound == 0 || g.Detached, MaxName: g.MaxName,
		Notes: append([]string{}, g.Notes...),
	}
	if p.MaxName == 0 {
		p.MaxName = driver.MaxName
	}
	if g.FIFO {
		p.DeadWait = max(g.DeadWaiter, driver.MaxReservation).Seconds()
	}
	if g.Lease {
		p.MinTTL, p.MaxTTL = max(g.MinTTL, driver.MinTTL).Seconds(), cmp.Or(g.MaxTTL, driver.MaxTTL).Seconds()
	}
	return p
}

func (a *app) storesCommand() *cobra.Command {
	var used bool
	c := &cobra.Command{
		Use:   "stores [FLAGS] [URL]",
		Short: "List the stores and what they promise",
		Long:  storesLong,
		Example: `  padlock stores
  padlock stores --used
  padlock stores 'redis://db7?durable=yes'`,
		DisableFlagsInUseLine: true,
		Args:                  a.oneURL,
		RunE: func(c *cobra.Command, _ []string) error {
			if used || a.storeURL != "" {
				return a.oneStore(c.Context())
			}
			return a.allStores(c.Context())
		},
	}
	c.Flags().BoolVar(&used, "used", false, "show the store that the other verbs use")
	return c
}

func (a *app) allStores(ctx context.Context) error {
	rows, err := a.kinds(ctx)
	if err != nil {
		return a.explain("", err)
	}
	if a.json {
		for _, p := range rows {
			if err := a.print(a.stdout, p); err != nil {
				return err
			}
		}
		return nil
	}
	return a.storeTable(rows)
}

func (a *app) storeTable(rows []promised) error {
	w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "STORE\tLEASE\tENDS WITH\tRESTART\tFAILOVER\tCLOCK STEP\tEVICTION\tFENCE\tSHARED\tIN ORDER\tCOOL-DOWN")
	for _, p := range rows {
		fmt.Fprintln(w, strings.Join([]string{
			p.Schemes[0] + ":", yesNo(p.Lease), p.EndsWith, p.Restart, p.Failover, p.ClockSet, p.Eviction, p.Fence,
			yesNo(p.Shared), yesNo(p.FIFO), yesNo(p.CoolDown),
		}, "\t"))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(a.stdout)
	w = tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	for _, p := range rows {
		fmt.Fprintf(w, "%s:\t%s, such as %s\n", p.Schemes[0], p.Help, p.Example)
		if len(p.Schemes) > 1 {
			fmt.Fprintf(w, "\talso %s:\n", strings.Join(p.Schemes[1:], ": "))
		}
	}
	if err := w.Flush(); err != nil {
		return err
	}
	others := ""
	if a.programName != allName {
		others = "\n" + a.otherProgram()
	}
	_, err := fmt.Fprint(a.stdout, "\nA store made of others promises what they promise; the rows above are for Redis.\n"+
		"padlock stores URL shows one store in full; padlock stores --help explains the columns.\n"+others)
	return err
}

func (a *app) oneStore(ctx context.Context) error {
	l, err := a.locker(ctx, "")
	if err != nil {
		return err
	}
	defer a.close(l)
	p := newPromised(l.Guarantees())
	if url, err := a.url(); err == nil {
		p.URL = open.Redacted(url, a.schemes)
	}
	found, err := l.Status(ctx)
	if err != nil && !errors.Is(err, errors.ErrUnsupported) {
		return a.explain("", err)
	}
	for _, f := range found {
		p.Found = append(p.Found, finding(f))
	}
	if a.json {
		return a.print(a.stdout, p)
	}
	return a.storePage(p)
}

func (a *app) storePage(p promised) error {
	w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	row := func(name, value string) { fmt.Fprintln(w, name+"\t"+value) }
	row("store", p.Store+" ("+p.URL+")")
	lease := "none: a lock lasts until it is released, or the " + p.EndsWith + " ends"
	if p.Lease {
		lease = fmt.Sprintf("%s to %s", span(seconds64(p.MinTTL)), span(seconds64(p.MaxTTL)))
	}
	row("lease", lease)
	row("ends with", p.EndsWith)
	row("survives a restart", p.Restart)
	row("survives a failover", p.Failover)
	row("safe if a clock is set", p.ClockSet)
	row("safe if it is full", p.Eviction)
	row("fence", p.Fence)
	row("shared locks", yesNo(p.Shared))
	row("readers have one fence", p.OneFence)
	row("promotion", p.Promote)
	row("in order", yesNo(p.FIFO))
	row("at least, cool-down", yesNo(p.CoolDown))
	for i, n := range p.Notes {
		row([]string{"notes", ""}[min(i, 1)], n)
	}
	for _, f := range p.Found {
		value := visible(f.Value)
		if f.Advice != "" {
			value += ": " + f.Advice
		}
		row("found: "+f.Name, value)
	}
	return w.Flush()
}

func seconds64(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}
