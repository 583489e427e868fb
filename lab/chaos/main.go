// Command chaos soaks every store in every configuration, twice. The first run causes only the
// faults that the store's Guarantees cover, and must show no violation. The second run causes all
// faults, and the violations are counted. See docs/measured.md.
//
//	go run ./chaos -for 60s -only 'redis AOF'
package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/padlock-go/padlock/internal/soak"
	"github.com/padlock-go/padlock/internal/soak/linear"
	"github.com/padlock-go/padlock/lab/chaos/judge"
	"github.com/padlock-go/padlock/lab/chaos/rig"
)

// settings are the flags.
type settings struct {
	rig.Options
	only   *regexp.Regexp
	most   int
	draw   string
	which  string
	keep   string
	append string
	replay string
	resume bool
	broken []string // a few lines for each row that failed, printed at the end
}

func main() {
	soak.PlayWorker(rig.Open, rig.Encoding)
	s, err := parse()
	if err == nil {
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
		defer stop()
		err = s.run(ctx)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "chaos:", err)
		os.Exit(1)
	}
}

func parse() (*settings, error) {
	s := &settings{}
	only := flag.String("only", "", "rows whose name matches this")
	flag.IntVar(&s.most, "most", 0, "run this many rows, drawn by -draw; 0: all")
	flag.StringVar(&s.draw, "draw", "", "the text that decides which rows -most leaves out, such as a commit")
	flag.StringVar(&s.which, "faults", "both", "covered, all or both")
	flag.DurationVar(&s.For, "for", time.Minute, "with faults, for each run")
	flag.DurationVar(&s.Tail, "tail", 6*time.Second, "without faults, after them")
	flag.DurationVar(&s.Every, "every", 150*time.Millisecond, "from the end of one fault to the next, on average")
	flag.IntVar(&s.Lanes, "lanes", 2, "faults at work at once, each on something else")
	flag.IntVar(&s.Workers, "workers", 4, "processes")
	flag.Uint64Var(&s.Seed, "seed", uint64(time.Now().UnixNano())%1e9, "of all dice")
	flag.StringVar(&s.keep, "keep", filepath.Join(os.TempDir(), "padlock-chaos"), "where runs that fail leave seed, history and picture")
	flag.StringVar(&s.append, "append", "", "add rows to the tables of this file")
	flag.BoolVar(&s.resume, "resume", false, "pass over what the file of -append has of this seed")
	flag.StringVar(&s.replay, "check", "", "judge this history again instead of running")
	flag.Parse()
	var err error
	s.only, err = regexp.Compile(*only)
	s.Say = func(text string) { fmt.Fprintln(os.Stderr, text) }
	return s, err
}

func (s *settings) run(ctx context.Context) error {
	if s.replay != "" {
		return s.judgeKept()
	}
	rows := slices.DeleteFunc(rig.Rows(), func(row rig.Row) bool { return !s.only.MatchString(row.Name) })
	if len(rows) == 0 {
		return fmt.Errorf("-only %s: no row matches", s.only)
	}
	rows = s.drawn(rows)
	for _, row := range rows {
		for _, all := range []bool{false, true} {
			if s.which == "covered" && all || s.which == "all" && !all || ctx.Err() != nil {
				continue
			}
			if err := s.runRow(ctx, row, all); err != nil {
				return fmt.Errorf("%s: %w\n  the same again: %s", row.Name, err, s.repeatCommand(row.Name, all))
			}
		}
	}
	if n := len(s.broken); n > 0 {
		return fmt.Errorf("%d stores broke what they promise (seed %d):\n%s", n, s.Seed, strings.Join(s.broken, "\n"))
	}
	return ctx.Err()
}

// drawn returns the rows that -draw selects, as many as -most allows. It prints the names of the
// rows that it leaves out.
func (s *settings) drawn(rows []rig.Row) []rig.Row {
	if s.most == 0 || len(rows) <= s.most {
		return rows
	}
	sum := sha256.Sum256([]byte(s.draw))
	dice := rand.New(rand.NewChaCha8(sum))
	out := map[int]bool{}
	for _, i := range dice.Perm(len(rows))[s.most:] {
		out[i] = true
		s.Say(fmt.Sprintf("left out by -draw %q: %s", s.draw, rows[i].Name))
	}
	var left []rig.Row
	for i, row := range rows {
		if !out[i] {
			left = append(left, row)
		}
	}
	return left
}

// runRow runs a row. If the row had to pass and did not, runRow adds a summary to s.broken.
func (s *settings) runRow(ctx context.Context, row rig.Row, all bool) error {
	if s.done(row, all) {
		s.Say(row.Name + ": done before")
		return nil
	}
	o := s.Options
	o.All = all
	run, out, err := row.Run(ctx, o)
	for i := 0; i < 2 && errors.Is(err, rig.ErrProxyStuck); i++ {
		s.Say(row.Name + ": again, since " + err.Error())
		run, out, err = row.Run(ctx, o)
	}
	if err != nil {
		return err
	}
	p := soak.NewReport(run, out)
	dir := s.dir(row, all)
	if p.Sum() > 0 {
		if err := keepHistory(dir, out); err != nil {
			return err
		}
	}
	v, err := judge.Check(out.Events, "", time.Minute)
	if err != nil {
		return err
	}
	p.Verdict = v.String()
	if v.Illegal > 0 {
		if err := keepHistory(dir, out); err != nil {
			return err
		}
		if _, err := judge.Check(soak.FilterHistory(out.Events, v.Names), dir, time.Minute); err != nil {
			return err
		}
	}
	s.tell(p, v, dir, row.Name, all)
	if bad := p.Sum() > 0 || v.Illegal+v.Unknown > 0; bad && !all {
		s.broken = append(s.broken, s.summary(row.Name, p, v))
	}
	return s.publish(row, all, p, v)
}

// summary describes in a few lines which row failed, how it failed, and how to run it again.
func (s *settings) summary(row string, p *soak.Report, v linear.Verdict) string {
	text := fmt.Sprintf("  %s: %s; porcupine: %v\n", row, p.Measured(), v)
	if len(p.Of) > 0 {
		text += fmt.Sprintf("    first: %v\n", p.Of[0])
	}
	return text + "    the same again: " + s.repeatCommand(row, false)
}

// repeatCommand returns the command that runs the soak of one row again, with the seed and the
// settings of this run.
func (s *settings) repeatCommand(row string, all bool) string {
	faults := map[bool]string{false: "covered", true: "all"}[all]
	return fmt.Sprintf("cd internal/integration && go run ./chaos -seed %d -only '^%s$' -faults %s -for %v -tail %v -every %v -lanes %d -workers %d",
		s.Seed, regexp.QuoteMeta(row), faults, s.For, s.Tail, s.Every, s.Lanes, s.Workers)
}

// tell prints the report. If the run failed, it also stores the report next to the history.
func (s *settings) tell(p *soak.Report, v linear.Verdict, dir, row string, all bool) {
	kind := map[bool]string{false: "covered faults", true: "all faults"}[all]
	fmt.Printf("== %s\n", kind)
	p.Write(os.Stdout)
	if p.Sum() == 0 && v.Illegal == 0 {
		return
	}
	again := s.repeatCommand(row, all)
	fmt.Printf("  no lock's history: %v\n  kept in %s; the same again: %s\n", v.Names, dir, again)
	if f, err := os.Create(filepath.Join(dir, "report.txt")); err == nil { // an error is ignored, because the history is enough
		p.Write(f)
		fmt.Fprintln(f, again)
		f.Close()
	}
}

func (s *settings) dir(row rig.Row, all bool) string {
	name := regexp.MustCompile(`[^a-z0-9]+`).ReplaceAllString(strings.ToLower(row.Name), "-")
	return filepath.Join(s.keep, fmt.Sprintf("%s-%v-%d", name, all, s.Seed))
}

func keepHistory(dir string, out *soak.Outcome) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	f, err := os.Create(filepath.Join(dir, "history.jsonl"))
	if err != nil {
		return err
	}
	defer f.Close()
	return soak.WriteHistory(f, out.Events)
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
	p := soak.NewReport(&soak.Run{Name: s.replay}, out)
	v, err := judge.Check(events, filepath.Dir(s.replay), time.Minute)
	p.Verdict = v.String()
	p.Write(os.Stdout)
	fmt.Println("  illegal:", v.Names)
	return err
}
