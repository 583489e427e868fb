package mysqladvisory

import (
	"context"

	"github.com/padlock-go/padlock/internal/calls"
)

// Prune removes the rows of names that nobody uses and whose last fence is old. The option [Keep]
// says how old. Prune returns how many rows it removed. If such a name is used again, its next
// fence is still higher than its last one. The store also prunes by itself, in the background.
// Prune needs the right to DELETE. It may take long. If ctx ends, Prune finishes the statement that
// is running. It then returns the error of ctx, and how many rows it has removed.
func (s *Store) Prune(ctx context.Context) (int, error) {
	if err := s.calls.Begin(ctx); err != nil {
		return 0, err
	}
	defer s.calls.Work.Done()
	keep := s.cfg.keepFor()
	if s.cfg.noFences || keep < 0 {
		return 0, nil
	}
	l, err := calls.Do(ctx, &s.calls, s.prepare)
	if err != nil {
		return 0, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.calls.Closing, cancel)()
	w := s.sweeper(l, keep)
	w.ctx = ctx
	n, err := w.sweep(0)
	return n, s.calls.AfterClose(err)
}
