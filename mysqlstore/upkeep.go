package mysqlstore

import (
	"context"

	"github.com/padlock-go/padlock/internal/calls"
)

// Prune removes the rows of names that nobody uses and whose last fence is old. The option [Keep]
// says how old. Prune returns how many rows it removed. If such a name is used again, its next
// fence is still higher than its last one. The store also prunes by itself, in the background.
// Prune needs the right to DELETE.
func (s *Store) Prune(ctx context.Context) (int, error) {
	return calls.Do(ctx, &s.calls, func() (int, error) {
		keep := s.cfg.keepFor()
		if s.cfg.noFences || keep < 0 {
			return 0, nil
		}
		l, err := s.prepare()
		if err != nil {
			return 0, err
		}
		return s.sweeper(l, keep).sweep(0)
	})
}
