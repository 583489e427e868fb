package simulation

import (
	"context"
	"time"
)

// Crowd is a scenario: many processes take one name again and again.
type Crowd struct {
	Setting
	Takes  int           // the scenario ends after Processes × Takes grants
	Use    time.Duration // how long a process uses the lock
	Arrive time.Duration // the processes begin at random times within this duration; grants within it do not count
}

// Run runs the scenario. The caller runs it in a testing/synctest bubble.
func (c Crowd) Run() Result {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	f := newReferee(c.Processes, c.Processes*c.Takes, c.Arrive, cancel)
	return c.run(ctx, f, c.Arrive, c.work, func(*process) {})
}

const crowdName = "the-name"

func (c Crowd) work(p *process) {
	if lock := p.take(crowdName); lock != nil {
		pause(lock.Context(), c.Use)
		p.giveBack(lock)
	}
}
