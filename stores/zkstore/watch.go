package zkstore

import (
	"errors"

	"github.com/go-zookeeper/zk"

	"github.com/padlock-go/padlock/driver"
)

// watchHolds watches the nodes of the holds that are not watched yet, so that a holder notices if
// Break, or another program, deletes its node. The session calls it only from time to time, so
// short holds cost nothing.
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
			ss.fire(paths[i], false)
		} else if err != nil { // the next call of watchHolds tries again
			s.holds.mu.Lock()
			fresh[i].watched = false
			s.holds.mu.Unlock()
		}
		return nil
	})
}

// nodeGone is called when the watch on a hold's node reports that the node was deleted or changed.
// If the node is gone, the hold ends. Otherwise the next call of watchHolds watches the node again,
// because ZooKeeper reports only one change for each watch.
func (s *Store) nodeGone(name, token string) {
	h, err := s.holds.enterHeld(s.calls.Closing, name, token)
	if err != nil {
		return
	}
	defer s.holds.leave(h)
	if err := s.verify(h); !errors.Is(err, driver.ErrLost) {
		s.holds.watchAgain(h)
	}
}
