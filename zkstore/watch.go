package zkstore

import (
	"errors"

	"github.com/go-zookeeper/zk"

	"github.com/padlock-go/padlock/driver"
)

// watchHolds watches the nodes of the holds that are not watched yet, so that a holder notices when
// Break, or another program, deletes its node. The session calls watchHolds only from time to time,
// so short holds cost nothing.
func (s *Store) watchHolds(ss *session) {
	s.holds.mu.Lock()
	var fresh []*hold
	var paths []string
	for _, h := range s.holds.byID {
		if h.state == held && h.ss == ss && !h.watched {
			h.watched = true
			fresh, paths = append(fresh, h), append(paths, h.path())
			ss.watch(h.path(), h)
		}
	}
	s.holds.mu.Unlock()
	_ = forEach(len(fresh), func(i int) error {
		if _, _, _, err := ss.conn.GetW(paths[i]); err == zk.ErrNoNode {
			ss.fire(paths[i])
		} else if err != nil { // the next round tries again
			s.holds.mu.Lock()
			fresh[i].watched = false
			s.holds.mu.Unlock()
		}
		return nil
	})
}

// missing ends a hold whose node was deleted by somebody else.
func (s *Store) missing(name, token string) {
	h, err := s.holds.enterHeld(s.closing, name, token)
	if err != nil {
		return
	}
	defer s.holds.leave(h)
	if err := s.verify(h); err != nil && !errors.Is(err, driver.ErrLost) {
		s.holds.change(h, h.node, h.fence)
	}
}
