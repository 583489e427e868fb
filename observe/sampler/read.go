package sampler

import (
	"context"
	"errors"
	"strings"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/internal/reads"
)

// A reading has the replies of the store in one sample. The keys of its maps are the names that the
// store uses, where each slot has a name of its own.
type reading struct {
	states     map[string]padlock.State
	unknown    map[string]string // names whose state the store cannot tell, with the reason
	incomplete error             // the reason why names may be missing
	err        error             // the reason why there is no reading
	calls      int
	gets       int // requests by which the store has read names one by one
}

// isComplete reports whether the store has answered every question.
func (r *reading) isComplete() bool {
	return r.err == nil && r.incomplete == nil && len(r.unknown) == 0
}

// maxAbsent is the largest number of names that a sample reads one by one. These are names that
// were held at the last sample and are missing in an incomplete list.
const maxAbsent = 100

// read asks the store for its names. The parameter held is the list of names that were held at the
// last sample. If the store's list is incomplete and lacks such a name, that name may still be
// held, so read asks for it separately.
func read(ctx context.Context, l *padlock.Locker, set *settings, held []string) reading {
	r := reading{states: map[string]padlock.State{}, unknown: map[string]string{}, calls: 1}
	counting, gets := reads.Count(ctx)
	states, err := l.List(counting, set.prefix)
	r.gets = int(gets.Load())
	switch {
	case err == nil:
	case errors.Is(err, errors.ErrUnsupported), len(states) > 0:
		r.incomplete = reason(err)
	default:
		r.err = reason(err)
		return r
	}
	for _, s := range states {
		r.states[keyOf(&s)] = s
	}
	for _, name := range set.watched {
		if r.incomplete != nil || !strings.HasPrefix(name, set.prefix) {
			r.inspect(ctx, l, name)
		}
	}
	if r.incomplete != nil {
		for _, name := range held[:min(len(held), maxAbsent)] {
			r.inspect(ctx, l, name)
		}
	}
	return r
}

// inspect asks for one name, if the list did not have it.
func (r *reading) inspect(ctx context.Context, l *padlock.Locker, name string) {
	if _, ok := r.states[name]; ok || r.err != nil || r.unknown[name] != "" {
		return
	}
	r.calls++
	s, err := l.Inspect(ctx, name)
	switch {
	case err == nil:
		r.states[name] = s
	case errors.Is(err, errors.ErrUnsupported), errors.Is(err, padlock.ErrInvalid), len(r.states) > 0:
		r.unknown[name] = reason(err).Error()
	default:
		r.err = reason(err)
	}
}

// pathMark is the beginning of a key made from the path of a lock file. Such a key stands for a
// lock whose name the store does not know. pathMark begins with a NUL byte, so that a name is
// unlikely to look like such a key.
const pathMark = "\x00file:"

// keyOf returns the name of a lock, or a text made of the path of its file if the store does not
// know the name.
func keyOf(s *padlock.State) string {
	if s.Name == "" {
		return pathMark + s.Path
	}
	return s.Name
}

// reason returns err without the operation and the name that package padlock adds.
func reason(err error) error {
	var e *padlock.Error
	if errors.As(err, &e) {
		return e.Err
	}
	return err
}
