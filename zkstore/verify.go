package zkstore

import (
	"github.com/go-zookeeper/zk"

	"github.com/padlock-go/padlock/driver"
)

// verify asks whether the node of h is still there.
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

// nodeExists asks whether the node of h exists. In Symfony's layout, the node may belong to the
// next holder.
func (s *Store) nodeExists(h *hold) (there bool, err error) {
	if s.cfg.symfony {
		token, _, err := h.ss.symfonyHolder(h.dir)
		if err == zk.ErrNoNode {
			err = nil
		}
		return token == h.token, err
	}
	err = h.ss.retryRequest(func() (err error) {
		there, _, err = h.ss.conn.Exists(h.path())
		return err
	})
	return there, err
}
