//go:build linux

package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"time"

	"github.com/padlock-go/padlock/lab/bench/measure"
	"github.com/padlock-go/padlock/lab/bench/trial"
)

// An order describes the task of a child process.
type order struct {
	Row, Addr, Name string
	Party           int  // the number of the process in the page, from 1
	Wait            bool // only waits for the lock, until stdin ends
}

// procs makes n processes lock and unlock one name repeatedly.
func (b *bench) procs(n int) *measure.Experiment {
	e := &measure.Experiment{
		Name:    fmt.Sprintf("procs, %d processes", n),
		Columns: workColumns, Base: limitQueue, Ratio: "hand-offs/s",
		Rows: b.rows(steadily, func(p *trial.Peer) (measure.Figures, error) { return b.procsOnce(p, n) }),
	}
	for _, row := range []string{ours, oursString} {
		if n == 16 {
			e.Targets = append(e.Targets,
				measure.Target{Row: row, Column: "hand-offs/s", Base: limitQueue, AtLeast: 0.5},
				measure.Target{Row: row, Column: "Jain", AtLeast: 0.99})
		}
	}
	return e
}

func (b *bench) procsOnce(p *trial.Peer, n int) (f measure.Figures, err error) {
	name := trial.NewName()
	if p.Prime != nil {
		if err := p.Prime(name); err != nil {
			return nil, err
		}
	}
	t, err := b.startTroop(p.Name, name, n, false)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, t.end()) }()
	end, err := b.rig.meter(t.page)()
	if err != nil {
		return nil, err
	}
	const head = 5 * time.Millisecond // time for all processes to see the gate open
	t.page.Span(head, b.plan.steady, b.plan.grace)
	tallies, err := t.finish()
	if err != nil {
		return nil, err
	}
	f, locks, err := t.page.Summary(tallies)
	err = errors.Join(err, end(f, locks))
	var cpu time.Duration // of the processes, without this one
	for _, one := range tallies {
		cpu += one.CPU
	}
	f["client us"] = measure.Micros(cpu) / float64(locks)
	return f, err
}

// A troop is the group of processes of a trial.
type troop struct {
	page     *trial.Page
	file     *os.File
	gate     *os.File // closing the gate starts the work of the children; see finish
	children []*child
}

type child struct {
	cmd *exec.Cmd
	out *bufio.Reader
}

// startTroop starts n processes and returns when all are connected and ready.
func (b *bench) startTroop(row, name string, n int, wait bool) (*troop, error) {
	t := &troop{}
	var err error
	if t.page, t.file, err = trial.NewPage(); err != nil {
		return nil, err
	}
	stdin, gate, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer stdin.Close()
	t.gate = gate
	for i := range n {
		o := order{Row: row, Addr: b.rig.addr, Name: name, Party: i + 1, Wait: wait}
		if err := t.start(o, stdin); err != nil {
			return nil, errors.Join(err, t.end())
		}
	}
	for _, c := range t.children {
		if line, err := c.out.ReadString('\n'); line != "ready\n" {
			return nil, errors.Join(fmt.Errorf("a process says %q: %w", line, err), t.end())
		}
	}
	return t, nil
}

func (t *troop) start(o order, stdin *os.File) error {
	cmd, err := trial.NewChild(o)
	if err != nil {
		return err
	}
	cmd.Stdin, cmd.ExtraFiles = stdin, []*os.File{t.file}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	t.children = append(t.children, &child{cmd, bufio.NewReader(out)})
	return nil
}

// finish closes the gate, which is the standard input of all children. Now the children begin to
// work, or they end if they were started only to wait. finish collects their results.
func (t *troop) finish() ([]trial.Tally, error) {
	tallies := make([]trial.Tally, len(t.children))
	errs := make([]error, len(t.children)+1)
	errs[len(t.children)] = t.gate.Close()
	var all sync.WaitGroup
	for i, c := range t.children {
		all.Go(func() {
			text, err := io.ReadAll(c.out)
			if err == nil {
				err = json.Unmarshal(text, &tallies[i])
			}
			errs[i] = errors.Join(err, c.cmd.Wait())
		})
	}
	all.Wait()
	return tallies, errors.Join(errs...)
}

// end kills the remaining processes.
func (t *troop) end() error {
	t.gate.Close() // usually it is closed already
	for _, c := range t.children {
		if c.cmd.ProcessState == nil {
			c.cmd.Process.Kill() // the process may have ended already
			c.cmd.Wait()         // returns an error, because the process was killed
		}
	}
	return errors.Join(t.page.Unmap(), t.file.Close())
}
