package padlock

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/padlock-go/padlock/driver"
)

// retryAfter is how long to wait before each repetition of a request whose reply was lost. Requests
// are idempotent per token, so repeating them is safe.
var retryAfter = [...]time.Duration{10 * time.Millisecond, 50 * time.Millisecond}

// poller chooses the pauses between the tries at a store that cannot wake waiters. The pauses are
// random times from 10 ms to 1 s (decorrelated jitter). A pause ends early if the holder's lease
// ends.
type poller struct {
	last time.Duration
	end  time.Time

	full    error          // driver.ErrQueueFull if the last Wait said so, or refused without a reason
	mustTry bool           // full was not followed by a try yet
	asked   driver.Instant // when slowDown was called last
	hasty   int            // how often in a row it was called again at once
}

const (
	pollMin = 10 * time.Millisecond
	pollMax = time.Second
)

func (p *poller) until(err error) {
	var held *HeldError
	if errors.As(err, &held) {
		p.end = held.Until
	}
}

// pollRefused is the least value of poller.last if a server cannot be reached. The next pause is a
// random time between pollMin and three times poller.last. So even the first pause may be as long
// as 300 ms.
const pollRefused = 100 * time.Millisecond

// adaptTo adapts the next pause to the error of a wait. A server that refuses connections is down,
// and thousands of processes may wait for it. So their pauses are long and random from the start.
// After a lost reply the first pause stays short, because the server usually answers the next
// request.
func (p *poller) adaptTo(err error) {
	if errors.Is(err, ErrUnavailable) {
		p.last = max(p.last, pollRefused)
	}
}

// slowDown is called before each wait in the store after the first one. It pauses if the waits have
// ended at once many times in a row, as only those in a broken store do.
func (p *poller) slowDown(ctx context.Context, l *Locker) {
	const atOnce, many = time.Millisecond, 100
	if l.clock.Now().Sub(p.asked) >= atOnce {
		p.hasty = 0
	} else if p.hasty++; p.hasty > many {
		l.sleep(ctx, p.next())
	}
	p.asked = l.clock.Now()
}

func (p *poller) next() time.Duration {
	high := max(3*p.last, 2*pollMin)
	p.last = min(pollMax, pollMin+rand.N(high-pollMin))
	if left := time.Until(p.end); left > 0 {
		return min(p.last, left+time.Millisecond)
	}
	return p.last
}
