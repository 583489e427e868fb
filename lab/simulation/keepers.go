package simulation

import (
	"context"
	"fmt"
	"math"
	"time"
)

// Keepers is a scenario: many processes start at the same instant, as after a deployment. Each
// takes a few names that no other process wants, and keeps them.
type Keepers struct {
	Setting
	Holds int           // the names that a process holds
	For   time.Duration // how long the scenario lasts
}

// Run runs the scenario. The caller runs it in a testing/synctest bubble.
func (c Keepers) Run() Result {
	ctx, cancel := context.WithTimeout(context.Background(), c.For)
	defer cancel()
	f := newReferee(c.Processes, math.MaxInt, 0, cancel)
	return c.run(ctx, f, 0, c.work, func(*process) {})
}

// work takes the names. If a lock is lost, it takes the name again.
func (c Keepers) work(p *process) {
	for i := range c.Holds {
		p.running.Go(func() {
			for p.ctx.Err() == nil {
				if lock := p.take(fmt.Sprint("name-", p.number, "-", i)); lock != nil {
					select {
					case <-lock.Context().Done():
					case <-p.ctx.Done():
					}
					p.giveBack(lock)
				}
			}
		})
	}
	p.running.Wait()
}
