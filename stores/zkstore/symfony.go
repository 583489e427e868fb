package zkstore

import (
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/go-zookeeper/zk"

	"github.com/padlock-go/padlock/driver"
)

// In Symfony's layout a lock is one ephemeral node, whose data is the token. Usually the node has
// the name of the lock. If the name contains a slash, the name of the node consists of the lock's
// name with "-" in place of each slash, another "-", and the SHA-1 of the lock's name.

// symfonyNode returns the path of a lock's node.
func (c *config) symfonyNode(name string) string {
	if !symfonyTakes(name) {
		// PHP cannot lock such a name, so the node may have any name that no other lock has.
		sum := sha256.Sum256([]byte(name))
		return join(c.root, "padlock-"+hex.EncodeToString(sum[:]))
	}
	if strings.Contains(name, "/") {
		sum := sha1.Sum([]byte(name))
		name = strings.ReplaceAll(name, "/", "-") + "-" + hex.EncodeToString(sum[:])
	}
	return join(c.root, name)
}

// symfonyTakes reports whether PHP can lock a name. It can if ZooKeeper accepts a node with this
// name, after slashes were replaced. symfonyTakes returns false for names that begin with
// "padlock-", because the store itself makes such nodes.
func symfonyTakes(name string) bool {
	forbidden := func(r rune) bool {
		return r <= 0x1f || r >= 0x7f && r <= 0x9f || r >= 0xd800 && r <= 0xf8ff || r >= 0xfff0
	}
	return utf8.ValidString(name) && !strings.ContainsFunc(name, forbidden) &&
		name != "." && name != ".." && name != "zookeeper" && !strings.HasPrefix(name, "padlock-")
}

// trySymfony tries to get the lock without waiting.
func (s *Store) trySymfony(ss *session, h *hold, r *driver.Request) error {
	h.dir = s.cfg.symfonyNode(r.Name)
	for tries := 1; ; tries++ {
		_, err := ss.conn.Create(h.dir, []byte(r.Token.Text()), zk.FlagEphemeral, s.cfg.acl())
		switch {
		case err == nil:
			return s.holds.recordHold(ss, h, held, node{}, 0)
		case err == zk.ErrNoNode:
			if err := ss.makeNode(s.cfg.root); err != nil {
				return err
			}
			continue
		case cutOff(err):
			if err := ss.retryRequest(func() error { _, err := ss.conn.Sync(h.dir); return err }); err != nil {
				s.holds.setUncertain(h, "")
				return fmt.Errorf("%w: %w", driver.ErrUncertain, err)
			}
			continue
		case err != zk.ErrNodeExists:
			return err
		}
		token, stat, err := ss.symfonyHolder(h.dir)
		switch {
		case err == zk.ErrNoNode && tries < 10:
			continue
		case err != nil:
			return err
		case !isLock(token, stat):
			return notOurs(h.dir)
		case token == r.Token.Text() && stat.EphemeralOwner == ss.conn.SessionID(): // an earlier try, whose reply was lost
			return s.holds.recordHold(ss, h, held, node{}, 0)
		}
		return &driver.HeldError{Waiters: -1, Holds: []driver.Hold{symfonyHold(stat)}}
	}
}

// isLock reports whether a node can be a lock: it is ephemeral, and its data can be a token. A
// container, which ZooKeeper deletes when it is empty, counts as ephemeral for the client.
func isLock(token string, stat *zk.Stat) bool {
	return stat.EphemeralOwner != 0 && stat.EphemeralOwner != math.MinInt64 && driver.CheckToken(token) == nil
}

// notOurs returns the error for a node that padlock did not make.
func notOurs(path string) error {
	return fmt.Errorf("%w: the node %s was not made by padlock, which leaves it alone; delete it by hand if nobody needs it, rename the lock, or use another root", driver.ErrUnavailable, path)
}

func (ss *session) symfonyHolder(path string) (token string, stat *zk.Stat, err error) {
	err = ss.retryRequest(func() error {
		var text []byte
		text, stat, err = ss.conn.Get(path)
		token = string(text)
		return err
	})
	return token, stat, err
}

// symfonyHold describes the holder of a lock. Only the time is known: the node does not name the
// holder, which may be a PHP program.
func symfonyHold(stat *zk.Stat) driver.Hold {
	return driver.Hold{Foreign: true, Since: time.UnixMilli(stat.Ctime)}
}

// dropSymfony deletes the node of a lock if it has h's token, and returns zk.ErrNoNode otherwise.
func (ss *session) dropSymfony(h *hold) error {
	token, _, err := ss.symfonyHolder(h.dir)
	if err == nil && token != h.token.Text() {
		err = zk.ErrNoNode
	}
	if err == nil {
		err = ss.delete(h.dir)
	}
	return err
}

// settleSymfony deletes the node of a try whose reply was lost, if that node exists.
func (ss *session) settleSymfony(h *hold) error {
	err := ss.retryRequest(func() error { _, err := ss.conn.Sync(h.dir); return err })
	if err == nil {
		err = ss.dropSymfony(h)
	}
	if err == zk.ErrNoNode {
		return nil
	}
	return err
}

func (s *Store) inspectSymfony(ss *session, name string) (driver.State, error) {
	st := driver.State{Name: name, Waiters: -1}
	path := s.cfg.symfonyNode(name)
	token, stat, err := ss.symfonyHolder(path)
	switch {
	case err == zk.ErrNoNode:
		return st, nil
	case err == nil && !isLock(token, stat):
		return st, notOurs(path)
	case err == nil:
		st.Holds = []driver.Hold{symfonyHold(stat)}
	}
	return st, err
}

// breakSymfony deletes the node of a lock.
func (s *Store) breakSymfony(ss *session, name string, seen uint64) error {
	if seen != 0 {
		return driver.ErrLost
	}
	path := s.cfg.symfonyNode(name)
	token, stat, err := ss.symfonyHolder(path)
	if err == nil && !isLock(token, stat) {
		return notOurs(path)
	}
	if err == nil {
		err = ss.delete(path)
	}
	if err == zk.ErrNoNode {
		return nil
	}
	return err
}

var errSymfonyList = fmt.Errorf("%w: the nodes of Symfony's layout look like other nodes", errors.ErrUnsupported)
