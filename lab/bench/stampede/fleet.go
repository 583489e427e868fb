//go:build linux

package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"slices"

	"github.com/padlock-go/padlock/lab/bench/trial"
)

// A fleet is the group of processes of a trial.
type fleet []*process

type process struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

// startFleet starts n processes for a row of a table. It returns when all of them are connected.
func startFleet(row, addr string, n int) (all fleet, err error) {
	for range n {
		p, err := startProcess(identity{row, addr})
		if err != nil {
			return nil, errors.Join(err, all.end())
		}
		all = append(all, p)
	}
	for _, p := range all {
		if _, err := p.answer(); err != nil {
			return nil, errors.Join(err, all.end())
		}
	}
	return all, nil
}

func startProcess(who identity) (*process, error) {
	cmd, err := trial.NewChild(who)
	if err != nil {
		return nil, err
	}
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	return &process{cmd, in, bufio.NewReader(out)}, cmd.Start()
}

// order sends the process an order.
func (p *process) order(o order) error { return json.NewEncoder(p.in).Encode(o) }

// line reads the next line from the process.
func (p *process) line() (t tally, err error) {
	text, err := p.out.ReadBytes('\n')
	if err != nil {
		return t, fmt.Errorf("a process has ended: %w", err)
	}
	return t, json.Unmarshal(text, &t)
}

// answer reads the answer to an order.
func (p *process) answer() (t tally, err error) {
	for t.Begun = true; t.Begun && err == nil; {
		t, err = p.line()
	}
	return t, err
}

// begun waits until the function runs in p.
func (p *process) begun() error {
	t, err := p.line()
	if err == nil && !t.Begun {
		err = fmt.Errorf("the function did not run: %+v", t)
	}
	return err
}

// sendAll sends the order to every process and adds up the tallies.
func (f fleet) sendAll(o order) (sum tally, err error) {
	for _, p := range f {
		err = errors.Join(err, p.order(o))
	}
	if err != nil {
		return sum, err
	}
	for _, p := range f {
		t, err := p.answer()
		if err != nil {
			return sum, err
		}
		sum.add(t)
	}
	return sum, nil
}

func (t *tally) add(other tally) {
	t.Runs += other.Runs
	t.Peak = max(t.Peak, other.Peak)
	t.Took = append(t.Took, other.Took...)
	t.Late += other.Late
	t.Errors += other.Errors
	if other.Error != "" {
		t.Error = other.Error
	}
	for _, v := range other.Values {
		if !slices.Contains(t.Values, v) {
			t.Values = append(t.Values, v)
		}
	}
}

// kill ends the process as kill -9 does.
func (p *process) kill() error {
	err := p.cmd.Process.Kill()
	p.in.Close() // the process has closed its end already
	p.cmd.Wait() // returns an error, because the process was killed
	return err
}

// end kills the remaining processes.
func (f fleet) end() (err error) {
	for _, p := range f {
		if p.cmd.ProcessState == nil {
			err = errors.Join(err, p.kill())
		}
	}
	return err
}
