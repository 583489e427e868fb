// Command chaos soaks every store in every configuration, twice. The first run causes only the
// faults that the store's Guarantees cover, and must show no violation. The second run causes all
// faults, and the violations are counted. See docs/internals/measured.md.
//
//	go run ./chaos -for 60s -only 'redis AOF'
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"syscall"
	"time"

	"github.com/padlock-go/padlock/lab/chaos/rig"
	"github.com/padlock-go/padlock/lab/soak"
	"github.com/padlock-go/padlock/lab/soak/linear"
)

// settings are the flags.
type settings struct {
	rig.Options
	only   *regexp.Regexp
	part   string
	which  string
	keep   string
	append string
	replay string
	play   func(*rig.Row, context.Context, rig.Options) (*soak.Run, *soak.Outcome, error) // runs a row
	runs   []*run
	least  int // with fewer grants, a run with the covered faults proves nothing
}

func main() {
	soak.PlayWorker(rig.Open)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := parse().run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "chaos:", err)
		os.Exit(1)
	}
}

func parse() *settings {
	s := &settings{play: (*rig.Row).Run, least: 20}
	s.only, s.Kinds = new(regexp.Regexp), new(regexp.Regexp)
	flag.TextVar(s.only, "only", regexp.MustCompile(""), "rows whose name matches this")
	flag.TextVar(s.Kinds, "kinds", regexp.MustCompile(""), "faults whose kind matches this, such as 'kill worker|stop worker'")
	flag.StringVar(&s.part, "part", "1/1", "which of the rows that -only leaves, such as 2/3 for the second of three runs at the same time")
	flag.StringVar(&s.which, "faults", "both", "covered, all or both")
	flag.DurationVar(&s.For, "for", time.Minute, "with faults, for each run")
	flag.DurationVar(&s.Tail, "tail", 6*time.Second, "without faults, after them")
	flag.DurationVar(&s.Every, "every", 150*time.Millisecond, "from the end of one fault to the next, on average")
	flag.IntVar(&s.Lanes, "lanes", 2, "faults at work at once, each on something else")
	flag.IntVar(&s.Workers, "workers", 4, "processes")
	flag.Uint64Var(&s.Seed, "seed", uint64(time.Now().UnixNano())%1e9, "of all dice")
	flag.StringVar(&s.keep, "keep", filepath.Join(os.TempDir(), "padlock-chaos"), "where runs that fail leave seed, history and picture")
	flag.StringVar(&s.append, "append", "", "add a line for each run to this file, such as chaos/runs/runs.csv")
	flag.StringVar(&s.Older, "older", "", "where older padlocks are built, once for all runs that name the same directory")
	flag.StringVar(&s.replay, "check", "", "judge this history again instead of running")
	flag.Parse()
	s.Say = func(text string) { fmt.Fprintln(os.Stderr, text) }
	return s
}

func (s *settings) run(ctx context.Context) error {
	if s.replay != "" {
		return s.judgeKept()
	}
	rows := slices.DeleteFunc(rig.Rows(), func(row rig.Row) bool { return !s.only.MatchString(row.Name) })
	if len(rows) == 0 {
		return fmt.Errorf("-only %s: no row matches", s.only)
	}
	rows, err := s.partOf(rows)
	if err != nil {
		return err
	}
	for _, row := range rows {
		for _, all := range []bool{false, true} {
			if s.which == "covered" && all || s.which == "all" && !all {
				continue
			}
			s.runs = append(s.runs, &run{row: row, all: all})
		}
	}
	if s.Older == "" {
		if s.Older, err = os.MkdirTemp("", "padlock-older-"); err != nil {
			return err
		}
		defer os.RemoveAll(s.Older)
	}
	s.makeRuns(ctx)
	s.printTable(os.Stdout)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return s.verdict()
}

// partOf returns the rows of -part. Rows that stand next to each other are in different parts.
func (s *settings) partOf(rows []rig.Row) (part []rig.Row, err error) {
	var i, n int
	if read, _ := fmt.Sscanf(s.part, "%d/%d", &i, &n); read != 2 || i < 1 || i > n || n > len(rows) {
		return nil, fmt.Errorf("-part %s: want two numbers such as 1/2, for at most %d parts", s.part, len(rows))
	}
	for k := i - 1; k < len(rows); k += n {
		part = append(part, rows[k])
	}
	return part, nil
}

// judgeKept judges the history of an earlier run.
func (s *settings) judgeKept() error {
	f, err := os.Open(s.replay)
	if err != nil {
		return err
	}
	defer f.Close()
	events, err := soak.ReadHistory(f)
	if err != nil {
		return err
	}
	out := &soak.Outcome{Events: events, From: events[0].At, To: events[len(events)-1].At}
	p, err := linear.Judge(&soak.Run{Name: s.replay}, out, "", time.Minute)
	p.Write(os.Stdout)
	return err
}
