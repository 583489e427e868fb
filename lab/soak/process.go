package soak

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"syscall"
	"time"

	"github.com/padlock-go/padlock/internal/server"
)

// ErrWorker is in the error of Run.Do if the process of a worker failed or did not end. No fault is
// an excuse for that.
var ErrWorker = errors.New("the process of a worker failed")

// process is the process of a worker.
type process struct {
	cmd    *exec.Cmd
	life   int
	stderr bytes.Buffer
	done   chan struct{}
	err    error
}

// start starts a process for the worker with the number id. The argument life says how many
// processes this worker has had before. The caller holds r.mu, except for the first process.
func (r *Run) start(id, life int) error {
	program, err := r.program(id, life)
	if err != nil {
		return err
	}
	// The worker gets its instructions in the environment, because other users can see the
	// arguments of a process.
	text, err := json.Marshal(r.order(id, life, r.Stages[r.stage[id]][id]))
	if err != nil {
		return err
	}
	p := &process{cmd: exec.Command(program), life: life, done: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), childVariable+"="+string(text))
	p.cmd.Stderr = &p.stderr
	if err := server.StartChild(p.cmd); err != nil {
		return err
	}
	go func() {
		p.err = p.cmd.Wait()
		close(p.done)
	}()
	r.workers[id] = p
	return nil
}

// program returns the path of the program that runs a worker in its present stage. If that is
// another program than the engine's own, an event in the history says so.
func (r *Run) program(id, life int) (string, error) {
	if len(r.Programs) > 0 {
		if other := r.Programs[r.stage[id]][id]; other != "" {
			r.monitor.Log(Event{Op: Other, Worker: id, Life: life, At: clockNow()})
			return other, nil
		}
	}
	return os.Executable()
}

// Targets(workerTargets, n) returns the names of the workers as targets: "worker 0", "worker 1" and
// so on.
const workerTargets = "worker"

// KillWorker returns the fault that kills a worker and starts it again.
func (r *Run) KillWorker() Fault {
	return Fault{Kind: "kill worker", On: Targets(workerTargets, r.Workers), Grace: r.Load.MaxTTL + time.Second, Begin: func(_ *rand.Rand, id int) (func() error, error) {
		r.mu.Lock()
		defer r.mu.Unlock()
		p := r.workers[id]
		at := clockNow() // the time is read before the kill, because the worker's locks become free as soon as it is dead
		if err := p.signal(id, os.Kill); err != nil {
			return nil, err
		}
		r.monitor.Log(Event{Op: Killed, Worker: id, Life: p.life, At: at})
		<-p.done
		return nil, r.start(id, p.life+1)
	}}
}

// StopWorker returns the fault that makes a worker stand still, sometimes for longer than any
// lease. On systems that cannot stop processes it returns no fault.
func (r *Run) StopWorker() []Fault {
	if stop == nil {
		return nil
	}
	return []Fault{{Kind: "stop worker", On: Targets(workerTargets, r.Workers), Last: r.Load.MaxTTL * 3 / 2, Grace: r.Load.MaxTTL + time.Second, Begin: func(_ *rand.Rand, id int) (func() error, error) {
		r.mu.Lock()
		defer r.mu.Unlock()
		p := r.workers[id]
		return func() error { return p.signal(id, proceed) }, p.signal(id, stop)
	}}}
}

// move restarts every worker whose stage is over, one worker after the other.
func (r *Run) move(end int64) error {
	if len(r.Stages) < 2 {
		return nil
	}
	steps := (len(r.Stages) - 1) * r.Workers
	passed := float64(clockNow()-r.base) / float64(end-r.base)
	due := min(steps, int(passed*float64(steps+1)))
	for step := range due {
		if id, stage := step%r.Workers, step/r.Workers+1; r.stage[id] < stage {
			if err := r.replace(id, stage); err != nil {
				return err
			}
		}
	}
	return nil
}

// replace ends a worker with SIGTERM and starts it again in another stage.
func (r *Run) replace(id, stage int) error {
	target := Targets(workerTargets, id+1)[id]
	for !r.busy.tryTake(target) { // keeps faults from stopping the process now: a stopped process would not handle SIGTERM
		pause(context.Background(), 5*time.Millisecond)
	}
	defer r.busy.give(target)
	r.mu.Lock()
	defer r.mu.Unlock()
	p := r.workers[id]
	if err := r.awaitWork(id, p); err != nil { // a worker that has not begun to work would not end cleanly
		return err
	}
	if err := p.signal(id, syscall.SIGTERM); err != nil {
		return err
	}
	if err := p.join(id, time.Minute); err != nil {
		return err
	}
	r.stage[id] = stage
	return r.start(id, p.life+1)
}

// awaitWork waits until a worker's process has begun to work, so its store is open.
func (r *Run) awaitWork(id int, p *process) error {
	for end := time.Now().Add(time.Minute); !r.monitor.hasBegun(id, p.life); {
		select {
		case <-p.done:
			return fmt.Errorf("before it began to work: %w", p.failure(id))
		case <-time.After(5 * time.Millisecond):
		}
		if time.Now().After(end) {
			p.cmd.Process.Kill() // the process may have ended already
			<-p.done
			return fmt.Errorf("worker %d does not begin to work: %s", id, p.stderr.String())
		}
	}
	return nil
}

// join waits for the workers to end by themselves.
func (r *Run) join() error {
	var errs []error
	for late, id := time.Now().Add(time.Minute), 0; id < len(r.workers); id++ {
		errs = append(errs, r.workers[id].join(id, max(time.Second, time.Until(late))))
	}
	return errors.Join(errs...)
}

// join waits until the process ends by itself. It returns an error if the process fails, or if it
// does not end in time.
func (p *process) join(id int, patience time.Duration) error {
	select {
	case <-p.done:
	case <-time.After(patience):
		return fmt.Errorf("%w: worker %d does not end", ErrWorker, id)
	}
	if p.err != nil {
		return p.failure(id)
	}
	return nil
}

// signal sends a signal to the process. It returns an error if the process has ended by itself.
func (p *process) signal(id int, s os.Signal) error {
	err := p.cmd.Process.Signal(s)
	if errors.Is(err, os.ErrProcessDone) {
		<-p.done
		return p.failure(id)
	}
	return err
}

// failure describes how the process ended.
func (p *process) failure(id int) error {
	return fmt.Errorf("%w: worker %d: %v: %s", ErrWorker, id, p.err, p.stderr.String())
}

// killAll kills all workers that still run.
func (r *Run) killAll() {
	for _, p := range r.workers {
		if p != nil {
			p.cmd.Process.Kill() // the process may have ended already
			<-p.done
		}
	}
}

func (r *Run) order(id, life int, config string) *order {
	o := &order{Worker: id, Life: life, Goroutines: r.Goroutines, Seed: r.Seed, Base: r.base, Config: config, Load: r.Load}
	if r.listener != nil {
		o.Socket = r.listener.Addr().String()
	}
	return o
}
