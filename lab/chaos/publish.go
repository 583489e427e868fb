package main

import (
	"encoding/csv"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/padlock-go/padlock/lab/chaos/rig"
	"github.com/padlock-go/padlock/lab/soak"
)

// publish adds a line to the file of runs that -append names, which must exist.
// docs/internals/soak.md explains its columns.
func (s *settings) publish(row rig.Row, all bool, p *soak.Report) error {
	if s.append == "" {
		return nil
	}
	file, err := os.OpenFile(s.append, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return err
	}
	w := csv.NewWriter(file)
	err = w.Write(record(row, all, p))
	w.Flush()
	return errors.Join(err, w.Error(), file.Close())
}

// lane is the first column of the file: which faults a run makes. Older lines have further lanes.
func lane(all bool) string {
	if all {
		return "all"
	}
	return "covered"
}

// record returns the line of a run.
func record(row rig.Row, all bool, p *soak.Report) []string {
	v := p.Verdict
	promise := row.Promise
	if all {
		promise = "under all faults: a checked fence helps"
	}
	return []string{
		lane(all), p.Name, promise, time.Now().Format(time.DateOnly), fmt.Sprint(p.Seed), p.For.Round(time.Second).String(),
		fmt.Sprint(p.Grants), fmt.Sprintf("%.0f", p.PerSecond), short(p.P50), short(p.P99),
		fmt.Sprintf("%d: %s", p.FaultSum(), soak.Counts(p.Faults)), fmt.Sprint(p.Ambiguous()), p.Measured(),
		fmt.Sprintf("%d ok, %d illegal, %d unknown", v.OK, v.Illegal, v.Unknown),
		p.Harm, short(p.Late), short(p.Recovery),
	}
}

func short(d time.Duration) string {
	switch {
	case d >= time.Second:
		return fmt.Sprintf("%.1f s", d.Seconds())
	case d >= 10*time.Millisecond:
		return fmt.Sprintf("%.0f ms", float64(d)/1e6)
	}
	return fmt.Sprintf("%.2f ms", float64(d)/1e6)
}
