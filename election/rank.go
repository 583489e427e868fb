package election

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/padlock-go/padlock"
)

// ResignWhenAsked makes a leader resign when somebody asks it to finish early, by Locker.Ask or
// padlock ask: the context of its function ends with the cause ErrResigned, and another candidate leads
// first. The leader looks once a second. Without this option, the function decides: see padlock.Asked.
func ResignWhenAsked() Option { return func(s *settings) { s.heeds = true } }

// Rank makes candidates with a greater rank preferred leaders. A candidate who waits asks the leader to
// resign if the leader has a smaller rank, and has led for leastTerm; the leader then resigns as with
// ResignWhenAsked. Nobody asks a leader of the same or a greater rank, so two ranks never chase each
// other. The next leader is whoever waits first, so after at most as many terms as there are candidates
// one of the greatest rank leads.
//
// All candidates need Rank; without it, no candidate is preferred. Every rank is possible. A leastTerm
// below 0 has no effect. A candidate who waits looks at the leader every 5
// seconds. Rank sets the label of the lock to "rank" and the number, which padlock status shows.
func Rank(rank int, leastTerm time.Duration) Option {
	return func(s *settings) { s.heeds, s.ranked, s.rank, s.leastTerm = true, true, rank, leastTerm }
}

// rankLook is how often a candidate who waits looks at the leader's rank.
const rankLook = 5 * time.Second

const rankLabel = "rank "

// heed resigns for the leader whose context is inside, when it is asked.
func (e *Election) heed(inside context.Context, resign context.CancelCauseFunc) {
	select {
	case <-padlock.Asked(inside):
		resign(ErrResigned)
	case <-inside.Done():
	}
}

// askLesser asks leaders of a smaller rank to resign, until ctx ends.
func (e *Election) askLesser(ctx context.Context) {
	for sleep(ctx, rankLook) {
		state, err := e.locker.Inspect(ctx, e.name)
		if err != nil || len(state.Holds) != 1 || state.Holds[0].Cooling {
			continue
		}
		leader := &state.Holds[0]
		text, ok := strings.CutPrefix(leader.Label, rankLabel)
		text, _, _ = strings.Cut(text, " ") // a padlock server adds who the client is
		rank, err := strconv.Atoi(text)
		if ok && err == nil && rank < e.set.rank && time.Since(leader.Since) >= e.set.leastTerm {
			_, _ = e.locker.Ask(ctx, e.name, rankLabel+strconv.Itoa(e.set.rank)) // after an error, the next look asks again
		}
	}
}

// sleep waits for d. It returns false if ctx ends first.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
