package zkstore

import (
	"github.com/go-zookeeper/zk"

	"github.com/padlock-go/padlock/driver"
)

// verify asks whether the node of h is still there.
func (s *Store) verify(h *hold) error {
	there, err := s.owns(h)
	switch {
	case !h.ss.alive():
		return driver.ErrLost
	case err == nil && !there:
		s.holds.clear(h, errBroken)
		return driver.ErrLost
	}
	return err
}

// owns asks whether the node of h exists. In Symfony's layout, the node may belong to the next
// holder.
func (s *Store) owns(h *hold) (there bool, err error) {
	if s.cfg.symfony {
		token, _, err := h.ss.symfonyHolder(h.dir)
		if err == zk.ErrNoNode {
			err = nil
		}
		return token == h.token, err
	}
	err = h.ss.again(func() (err error) {
		there, _, err = h.ss.conn.Exists(h.path())
		return err
	})
	return there, err
}
