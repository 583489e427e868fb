//go:build linux

package trial

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"

	"github.com/padlock-go/padlock/lab/bench/measure"
)

// An Order describes the task of a process of a trial. At says where the server is.
type Order struct {
	Row, At, Name string
	Party         int // the number of the process in the page, from 1
	Task          task
}

type task string

const (
	compete task = "compete" // locks and unlocks until the trial ends
	take    task = "take"    // takes the lock once
	stay    task = "stay"    // waits until the trial ends, and never gets the lock
)

// Obey is the function of [PlayChild] for the processes of Contest, Queue and Troop. It knows the
// peers of a server.
func Obey(peers func(at string) ([]Peer, error)) func(Order) error {
	return func(o Order) error {
		p, err := MapPage(os.NewFile(3, "page"))
		if err != nil {
			return err
		}
		all, err := peers(o.At)
		if err != nil {
			return err
		}
		for _, peer := range all {
			if peer.Name == o.Row {
				return o.obey(p, &peer)
			}
		}
		return errors.New("there is no row " + o.Row)
	}
}

// obey opens a client. Then it says so, and does its task. It ends when the parent closes its
// stdin.
func (o *Order) obey(p *Page, peer *Peer) error {
	c, locks, err := peer.Start(&p.Sent[o.Party], o.Name)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	began := make(chan error, 1)
	if o.Task != compete {
		go func() { began <- p.once(ctx, locks[0], int32(o.Party)) }()
	}
	fmt.Println("ready")
	if _, err := io.Copy(io.Discard, os.Stdin); err != nil {
		return err
	}
	var t Tally
	switch o.Task {
	case compete:
		before := measure.Used()
		t = p.Work(locks[0], int32(o.Party))
		t.CPU = measure.Used() - before
	case take:
		err = errors.Join(<-began, c.Close())
	case stay:
		select {
		case bad := <-began:
			err = fmt.Errorf("it did not wait to the end: %v", bad)
		default:
		}
	}
	return errors.Join(err, json.NewEncoder(os.Stdout).Encode(t))
}

// once takes a lock and releases it.
func (p *Page) once(ctx context.Context, l Lock, id int32) error {
	unlock, err := l(ctx)
	if err != nil {
		return err
	}
	p.enter(id)
	p.leave(id)
	p.served.Add(1)
	return unlock()
}

// Contest makes n processes lock and unlock one name for a time, as Compete makes goroutines do.
func (p *Peer) Contest(at string, n int, length, grace time.Duration, m func(*Page) Meter) (f measure.Figures, err error) {
	t, err := p.troop(at, NewName(), n, compete)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, t.End()) }()
	var cpu time.Duration // of the processes, without this one
	f, err = meter(m, t.Page).around(func() (measure.Figures, int, error) {
		const head = 5 * time.Millisecond // time for all processes to see the gate open
		t.Page.Span(head, length, grace)
		tallies, err := t.Finish()
		if err != nil {
			return nil, 0, err
		}
		for _, one := range tallies {
			cpu += one.CPU
		}
		return t.Page.Summary(tallies)
	})
	if err != nil {
		return nil, err
	}
	f["client us"] = measure.Micros(cpu) / f["locks"]
	return f, nil
}

// Queue makes n processes wait for one name, which is then released. It returns the microseconds
// of a hand-over, until all have had the lock.
func (p *Peer) Queue(at string, n int) (f measure.Figures, err error) {
	name := NewName()
	c, locks, err := p.Start(new(Counter), name)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	unlock, err := locks[0](context.Background())
	if err != nil {
		return nil, err
	}
	t, err := p.troop(at, name, n, take)
	if err != nil {
		return nil, errors.Join(err, unlock())
	}
	defer func() { err = errors.Join(err, t.End()) }()
	if err := await(n, func() (int, error) { return p.Waiting(name) }); err != nil {
		return nil, errors.Join(err, unlock())
	}
	time.Sleep(100 * time.Millisecond) // until all are asleep
	start := now()
	if err := unlock(); err != nil {
		return nil, err
	}
	if err := await(n, func() (int, error) { return int(t.Page.served.Load()), nil }); err != nil {
		return nil, err
	}
	took := t.Page.released.Load() - start
	_, err = t.Finish()
	return measure.Figures{"µs/hand-over": float64(took) / 1e3 / float64(n)}, err
}

// await waits until count returns n, for a minute at most.
func await(n int, count func() (int, error)) error {
	for end := time.Now().Add(time.Minute); ; time.Sleep(2 * time.Millisecond) {
		got, err := count()
		switch {
		case got >= n:
			return nil
		case time.Now().After(end):
			return errors.Join(fmt.Errorf("only %d of %d processes", got, n), err)
		}
	}
}

// A Troop is the group of processes of a trial.
type Troop struct {
	Page     *Page
	file     *os.File
	gate     *os.File // closing the gate starts the work of the children; see Finish
	children []*child
}

type child struct {
	cmd *exec.Cmd
	out *bufio.Reader
}

// Waiters starts n processes that wait for a name that somebody holds.
func (p *Peer) Waiters(at, name string, n int) (*Troop, error) { return p.troop(at, name, n, stay) }

// troop starts n processes and returns when all are connected and ready.
func (p *Peer) troop(at, name string, n int, do task) (t *Troop, err error) {
	t = &Troop{}
	if t.Page, t.file, err = NewPage(); err != nil {
		return nil, err
	}
	stdin, gate, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer stdin.Close()
	t.gate = gate
	for i := range n {
		if err := t.start(Order{p.Name, at, name, i + 1, do}, stdin); err != nil {
			return nil, errors.Join(err, t.End())
		}
	}
	for _, c := range t.children {
		if line, err := c.out.ReadString('\n'); line != "ready\n" {
			return nil, errors.Join(fmt.Errorf("a process says %q: %w", line, err), t.End())
		}
	}
	return t, nil
}

func (t *Troop) start(o Order, stdin *os.File) error {
	cmd, err := NewChild(o)
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

// Finish closes the gate, which is the standard input of all children. Now the children begin to
// compete, or they end. Finish collects their results.
func (t *Troop) Finish() ([]Tally, error) {
	tallies := make([]Tally, len(t.children))
	return tallies, errors.Join(t.gate.Close(), Together(len(t.children), func(i int) error {
		text, err := io.ReadAll(t.children[i].out)
		if err == nil {
			err = json.Unmarshal(text, &tallies[i])
		}
		return errors.Join(err, t.children[i].cmd.Wait())
	}))
}

// End kills the remaining processes.
func (t *Troop) End() error {
	t.gate.Close() // usually it is closed already
	for _, c := range t.children {
		if c.cmd.ProcessState == nil {
			c.cmd.Process.Kill() // the process may have ended already
			c.cmd.Wait()         // returns an error, because the process was killed
		}
	}
	return errors.Join(t.Page.Unmap(), t.file.Close())
}
