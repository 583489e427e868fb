package padlockapi

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/driver/fast"
)

// longestFence is how many bytes the longest fence and a blank have: they stand before the reason in
// the label of a question.
const longestFence = len("9007199254740991 ")

// ask asks the holder of a name to finish early; see padlock.Locker.Ask. Who asks stands behind the
// reason, as it does behind the label of a holder.
func ask(q *query) reply {
	if len(q.reason) > maxReason || !utf8.ValidString(q.reason) {
		return refuse(http.StatusBadRequest, "invalid", "reason has more than 300 bytes")
	}
	ctx, cancel := q.patient()
	defer cancel()
	reason := q.signed(q.reason, longestFence)
	found, err := q.where.locker.Ask(ctx, q.name, reason)
	switch {
	case errors.Is(err, padlock.ErrUncertain):
	case errors.Is(err, padlock.ErrLost):
		return refuse(http.StatusGone, "lost", "nobody has this lock now, so there is nobody to ask")
	case errors.Is(err, padlock.ErrHeld):
		return refuseUntil(http.StatusConflict, "held", "a question to an earlier holder is still there; ask again when it has ended", time.Second)
	}
	if err != nil {
		return failure(err)
	}
	q.audit(slog.LevelInfo, "ask", slog.String("name", q.name), slog.Uint64("fence", found.Fence), slog.String("reason", q.reason))
	out := question{*askedOf(&found), found.Reason != reason}
	if out.Earlier && !q.who.Read {
		out.Asked.Reason, out.Asked.Host, out.Asked.PID = "", "", 0
	}
	return reply{http.StatusOK, out}
}

// isApart reports whether the name is that of a lock that is no lock of a client's own: a gate of slots,
// a question, or a lock of package newest.
func isApart(stored string) bool {
	_, question := fast.SplitAsk(stored)
	_, slot, isSlot := fast.SplitSlot(stored)
	_, newest := fast.SplitNewest(stored)
	return question || newest || isSlot && slot < 0
}

// keepsQuestions reports whether a holder can be asked in this store: see padlock.Locker.Ask.
func (q *query) keepsQuestions() bool {
	g := q.where.store.Guarantees()
	_, ok := driver.As[driver.Admin](q.where.store)
	return ok && g.Lacks&driver.AbilityInspect == 0 && g.Fence != driver.FenceNone && (g.Bound == driver.BoundToNothing || g.Detached)
}

// lookForQuestion adds the question to the holder of the lock that s is the state of. It costs the
// store a request, so it is left out where there can be none: for a free name, and for a permit.
func (q *query) lookForQuestion(ctx context.Context, out *state, s padlock.State) error {
	if !out.Held || out.Slot != nil || isApart(s.Name) || !q.keepsQuestions() {
		return nil
	}
	kept, err := q.where.locker.Inspect(ctx, fast.AskName(s.Name))
	if errors.Is(err, padlock.ErrInvalid) {
		return nil // the name is too long for a question
	}
	kept.Name = fast.AskName(s.Name)
	found, _ := padlock.QuestionIn(kept)
	out.show(found, s)
	return err
}

// show adds a question to the answer, if it is for a holder of the lock. The holder of an exclusive
// lock has the fence of the name; readers that were asked may have a smaller one.
func (w *state) show(q padlock.Question, s padlock.State) {
	shared := slices.ContainsFunc(s.Holds, func(h driver.Hold) bool { return h.Shared })
	if w.Held && q.Fence > 0 && (q.Fence >= s.Fence || shared) {
		w.Asked = askedOf(&q)
	}
}

func askedOf(q *padlock.Question) *asked {
	out := &asked{Reason: q.Reason, Host: q.By.Host, PID: q.By.PID, Fence: q.Fence}
	if !q.At.IsZero() {
		ms := time.Since(q.At).Milliseconds()
		out.SinceMS = &ms
	}
	return out
}
