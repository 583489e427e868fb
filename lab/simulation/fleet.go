package simulation

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/padlock-go/padlock"
)

// Fleet is a scenario: many processes hold a few names each. From time to time, each process
// releases one of its names and takes another name. There are ten times as many names as processes.
type Fleet struct {
	Setting
	Holds  int           // the names that a process holds
	Change time.Duration // how long a process waits, on average, before it changes a name
	For    time.Duration // how long the scenario lasts
}

// namesEach is the number of names for each process.
const namesEach = 10

// fleetWait is how long a process waits for a name before it tries another.
const fleetWait = time.Second

// Run runs the scenario. The caller runs it in a testing/synctest bubble.
func (c Fleet) Run() Result {
	ctx, cancel := context.WithTimeout(context.Background(), c.For)
	defer cancel()
	begin := time.Duration(c.Holds+1) * c.Change
	f := newReferee(c.Processes, math.MaxInt, begin, cancel)
	held := make([][]*padlock.Lock, c.Processes)
	return c.run(ctx, f, c.Change, func(p *process) { c.work(p, &held[p.number]) }, func(p *process) {
		for _, lock := range held[p.number] {
			p.giveBack(lock)
		}
	})
}

// work changes one name.
func (c Fleet) work(p *process, held *[]*padlock.Lock) {
	if h := *held; len(h) == c.Holds {
		*held = h[1:]
		p.giveBack(h[0])
	}
	name := fmt.Sprint("name-", p.random.IntN(c.Processes*namesEach))
	if lock := p.take(name, padlock.Wait(fleetWait)); lock != nil {
		*held = append(*held, lock)
		pause(p.ctx, p.spread(c.Change))
	}
}
