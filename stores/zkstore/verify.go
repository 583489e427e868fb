package zkstore

import (
	"github.com/go-zookeeper/zk"

	"github.com/padlock-go/padlock/driver"
)

// verify asks the servers whether the node of h still exists. If it does not, the hold ends and
// verify returns ErrLost.
func (s *Store) verify(h *hold) error {
	there, err := s.nodeExists(h)
	switch {
	case !h.ss.alive():
		return driver.ErrLost
	case err == nil && !there:
		s.holds.clear(h, errBroken)
		return driver.ErrLost
	}
	return err
}

// nodeExists asks the servers whether the node of h exists. In Symfony's layout it also compares
// the token, because the node may belong to the next holder.
func (s *Store) nodeExists(h *hold) (there bool, err error) {
	if s.cfg.symfony {
		token, _, err := h.ss.symfonyHolder(h.dir)
		if err == zk.ErrNoNode {
			err = nil
		}
		return token == h.token.Text(), err
	}
	err = h.ss.retryRequest(func() (err error) {
		there, _, err = h.ss.conn.Exists(h.path())
		return err
	})
	return there, err
}
