package zkstore

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"slices"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/storekit"
)

// Open connects to the servers of c. ctx limits only Open itself.
//
// Open returns driver.ErrInvalid if settings are wrong or the servers demand a longer session
// timeout, and driver.ErrUnavailable if no server can be reached. With Lazy, Open does not wait for
// a connection.
func Open(ctx context.Context, c Config, opts ...Option) (*Store, error) {
	s := &Store{cfg: defaults()}
	s.cfg.servers, s.cfg.credentials = slices.Clone(c.Servers), c.Credentials
	if s.cfg.dial = c.Dial; c.Dial == nil {
		s.cfg.dial = (&net.Dialer{}).DialContext
	}
	storekit.Apply(&s.cfg, opts)
	if err := s.cfg.check(); err != nil {
		return nil, err
	}
	s.clock = cmp.Or(s.cfg.clock, driver.SystemClock())
	s.promises = s.cfg.guarantees()
	s.holds.byID, s.holds.live, s.fences.known = map[storekit.HoldID]*hold{}, map[string]*presence{}, map[string]mapping{}
	s.host = storeParts{&s.cfg, s.clock, &s.fences, s.calls.Go, s.watchHolds, s.nodeGone}
	s.calls.Open()
	if s.cfg.lazy {
		return s, nil
	}
	if _, err := runOp(ctx, s, func() (struct{}, error) { return struct{}{}, s.prepare(ctx) }); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// prepare connects and makes the root node. It also records when the root node was created.
// SamePlace compares this time to find out whether two stores use the same servers.
func (s *Store) prepare(ctx context.Context) error {
	ss, err := s.session(ctx)
	if err != nil || s.cfg.root == "/" {
		return err
	}
	if err := ss.makeNode(s.cfg.root); err != nil {
		return err
	}
	return ss.retryRequest(func() error {
		_, stat, err := ss.conn.Exists(s.cfg.root)
		if err == nil {
			s.rootID.Store(fmt.Sprintf("%s %d %d", s.cfg.root, stat.Czxid, stat.Ctime))
		}
		return err
	})
}
