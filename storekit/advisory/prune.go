package advisory

import "context"

// Prune removes the rows of names that nobody uses and whose last fence is older than the option
// Keep says. It returns how many rows it removed. If such a name is used again, its next fence is
// still higher than its last one. The store also prunes by itself, in the background. Prune needs
// the right to DELETE. It may take long. If ctx ends, Prune finishes the statement that is running.
// It then returns the error of ctx, and how many rows it has removed.
func (s *Store[C]) Prune(ctx context.Context) (int, error) {
	if err := s.calls.Begin(ctx); err != nil {
		return 0, err
	}
	defer s.calls.Work.Done()
	keep := keepFor(s.cfg.Keep)
	if !s.fences || keep < 0 {
		return 0, nil
	}
	if err := Prepare(ctx, s); err != nil {
		return 0, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.calls.Closing, cancel)()
	w := s.sweeper(keep)
	w.ctx = ctx
	n, err := w.sweep(0)
	return n, s.calls.AfterClose(err)
}
