package advisory

import "fmt"

// Leftovers describes everything that a store without holds and calls should not have. It returns
// "" for nothing.
func Leftovers[C Session](s *Store[C]) (out string) {
	p := &s.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, entries := range [][]poolEntry[C]{p.holds[:], p.waits[:]} {
		for i := range entries {
			sl := &entries[i]
			if sl.taken {
				out += fmt.Sprintf("entry %d is taken; ", i)
			}
			if c := sl.c; c != nil && c.alive() && len(c.keys)+len(c.sole)+c.ops > 0 {
				out += fmt.Sprintf("entry %d counts keys %v, sole %v, ops %d; ", i, c.keys, c.sole, c.ops)
			}
		}
	}
	if seats, seeking := len(p.seats), p.seeking.Load(); seats > 0 || seeking > 0 {
		out += fmt.Sprintf("%d seats are taken, and %d waiters seek one; ", seats, seeking)
	}
	s.holds.mu.Lock()
	defer s.holds.mu.Unlock()
	for _, h := range s.holds.byID {
		out += fmt.Sprintf("token of %q in state %d with %d operations; ", h.name, h.state, h.refs)
	}
	if n := len(s.holds.byKey); n > 0 {
		out += fmt.Sprintf("%d keys have holds; ", n)
	}
	return out
}
