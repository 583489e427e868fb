package padlockapi

import (
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/padlock-go/padlock"
)

// maxListed is how many locks an answer to list has.
const maxListed = 1000

// maxReason is the length of the longest reason for a break.
const maxReason = 300

func status(q *query) reply {
	name, err := q.storedName()
	if err != nil {
		return failure(err)
	}
	ctx, cancel := q.patient()
	defer cancel()
	s, err := q.where.locker.Inspect(ctx, name)
	if err != nil {
		return failure(err)
	}
	s.Name = name
	out := stateOf(s)
	if err := q.lookForQuestion(ctx, &out, s); err != nil {
		return failure(err)
	}
	return reply{http.StatusOK, out}
}

// listNames lists the names below a prefix, sorted. A list that lacks names is not an answer.
func listNames(q *query) reply {
	ctx, cancel := q.patient()
	defer cancel()
	all, err := q.where.locker.List(ctx, q.prefix)
	if err != nil {
		return failure(err)
	}
	slices.SortFunc(all, func(a, b padlock.State) int { return strings.Compare(a.Name, b.Name) })
	questions := map[string]padlock.Question{}
	for _, s := range all {
		if one, ok := padlock.QuestionIn(s); ok {
			questions[one.Name] = one
		}
	}
	out := list{Locks: []state{}}
	for _, s := range all {
		if isApart(s.Name) {
			continue
		}
		if len(out.Locks) == maxListed {
			out.LeftOut++
			continue
		}
		one := stateOf(s)
		one.show(questions[s.Name], s)
		out.Locks = append(out.Locks, one)
	}
	return reply{http.StatusOK, out}
}

// breakHolds ends the holds of a name by force, if its fence is still the one that the visitor saw.
func breakHolds(q *query) reply {
	name, err := q.storedName()
	switch {
	case err != nil:
		return failure(err)
	case q.fence == 0:
		return refuse(http.StatusBadRequest, "invalid", "fence must be that of /v1/status: the lock is broken only while it has that fence")
	case len(q.reason) > maxReason || !utf8.ValidString(q.reason):
		return refuse(http.StatusBadRequest, "invalid", "reason has more than 300 bytes")
	}
	ctx, cancel := q.patient()
	defer cancel()
	fence, err := q.where.locker.Break(ctx, name, uint64(q.fence))
	attrs := []slog.Attr{slog.String("name", q.name), slog.Int64("fence", q.fence), slog.String("reason", q.reason)}
	if q.has("slot") {
		attrs = append(attrs, slog.Int64("slot", q.slot))
	}
	if err != nil {
		q.audit(slog.LevelInfo, "break failed", append(attrs, slog.String("error", err.Error()))...)
		if errors.Is(err, padlock.ErrLost) && !errors.Is(err, padlock.ErrUncertain) {
			return refuse(http.StatusConflict, "changed", "nothing was broken: the name has another fence by now; look again")
		}
		return failure(err)
	}
	q.audit(slog.LevelInfo, "break", attrs...)
	return reply{http.StatusOK, broken{Fence: fence}}
}
