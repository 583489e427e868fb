package election

import (
	"context"
	"time"
)

// Leader describes the leader. The candidate itself gave the store this description, and nobody has
// verified it.
type Leader struct {
	Host  string
	PID   int
	Label string
	Since time.Time // when it became the leader; zero if unknown
	Until time.Time // when its lease ends if it is not renewed; zero if unknown
	Fence uint64    // 0 if the store has no fences
}

// Leader asks the store for the leader. It works without Run, so a process that is no candidate can
// use it. ErrNoLeader means that nobody leads. A store that cannot tell returns
// errors.ErrUnsupported. The reply may be outdated when it arrives.
func (e *Election) Leader(ctx context.Context) (Leader, error) {
	state, err := e.locker.Inspect(ctx, e.name)
	if err != nil {
		return Leader{}, err
	}
	for _, h := range state.Holds {
		if !h.Cooling {
			return Leader{h.Host, h.PID, h.Label, h.Since, h.Until, state.Fence}, nil
		}
	}
	return Leader{}, ErrNoLeader
}
