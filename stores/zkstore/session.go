package zkstore

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/padlock-go/padlock/driver"
)

// A session is a session of ZooKeeper. It has one connection at a time. A session that was lost is
// never used again.
//
//	state         meaning                              holds
//	connected     the servers answer                   held
//	disconnected  the client looks for a server        held until the session's clock runs out
//	lost          the servers or the clock ended it    lost
//
// The session's clock is a sessionClock. It runs out when the servers may have ended the session.
// The store needs this clock because the client learns of the end only while it is connected.
type session struct {
	storeParts
	conn  *zk.Conn
	known sessionClock
	bound context.Context // cancelled when the session is lost
	end   context.CancelCauseFunc

	mu         sync.Mutex
	wire       *wire
	loggedIn   bool          // the credentials were accepted
	up         chan struct{} // closed while connected
	down       chan struct{} // closed while no server can be reached
	dialErr    error         // the last error of dial
	watches    map[string]*nodeWatch
	hasWatched bool             // the client may have watches
	kept       map[string]*hold // holds whose nodes are watched
}

// storeParts contains the parts of a store that its sessions need.
type storeParts struct {
	cfg        *config
	clock      driver.Clock
	fences     *mappingCache
	spawn      func(f func()) bool      // runs f in the background
	watchHolds func(ss *session)        // watches the nodes of holds; called from time to time
	nodeGone   func(name, token string) // called when the node of a hold was deleted or changed
}

// newSession returns a new session, which connects in the background.
func newSession(of storeParts) (*session, error) {
	ss := &session{storeParts: of, up: make(chan struct{}), down: make(chan struct{}), watches: map[string]*nodeWatch{}, kept: map[string]*hold{}}
	ss.bound, ss.end = context.WithCancelCause(context.Background())
	ss.known.resumed(ss.clock.Now(), ss.cfg.timeout) // the servers may choose another timeout, and report it later
	ready := make(chan struct{})
	conn, _, err := zk.Connect(ss.cfg.servers, ss.cfg.timeout,
		zk.WithLogger(quietLogger{}), zk.WithLogInfo(false), zk.WithHostProvider(&hosts{ss: ss}),
		zk.WithDialer(func(network, addr string, _ time.Duration) (net.Conn, error) { return ss.dial(network, addr) }),
		zk.WithEventCallback(func(e zk.Event) { <-ready; ss.event(e) }))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", driver.ErrUnavailable, err)
	}
	ss.conn = conn
	close(ready)
	ss.spawn(ss.keepAlive)
	return ss, nil
}

// quietLogger drops everything that the client logs, because the callers get the errors anyway.
type quietLogger struct{}

func (quietLogger) Printf(string, ...any) {}

// hosts tells the client which server it should connect to. The names of the servers are looked up
// for each connection. The client's own host provider looks them up only once.
type hosts struct {
	ss      *session
	mu      sync.Mutex
	servers []string
	next    int
	failed  int
}

func (h *hosts) Init(servers []string) error { h.servers = servers; return nil }

func (h *hosts) Len() int { return len(h.servers) }

// Next returns the server to which the client connects next. If Next also returns true, the client
// pauses for 1 s, and stops if it was closed. That pause is too long for a session with a short
// timeout. So Next itself makes a shorter pause. It returns true only after the end of the session.
func (h *hosts) Next() (string, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	server := h.servers[h.next%len(h.servers)]
	if h.failed >= len(h.servers) {
		h.ss.unreachable()
		pause := time.NewTimer(min(h.ss.known.length()/20, 250*time.Millisecond))
		select {
		case <-pause.C:
		case <-h.ss.bound.Done():
		}
		pause.Stop()
	}
	h.next++
	h.failed++
	return server, h.ss.bound.Err() != nil
}

func (h *hosts) Connected() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.failed = 0
}

// dial connects to a server. After the end of the session it returns an error, because the client
// would begin another session if it got a connection.
func (ss *session) dial(network, addr string) (net.Conn, error) {
	if ss.bound.Err() != nil {
		return nil, context.Cause(ss.bound)
	}
	ctx, cancel := context.WithTimeout(ss.bound, min(time.Second, ss.known.length()/4))
	defer cancel()
	conn, err := ss.cfg.dial(ctx, network, addr)
	ss.mu.Lock()
	defer ss.mu.Unlock()
	if err != nil {
		ss.dialErr = err
		return nil, err
	}
	ss.wire = newWire(conn, ss.clock, &ss.known, ss.hasWatched)
	return ss.wire, nil
}

// event handles an event that the client reports. It does not block, since the client waits for it.
func (ss *session) event(e zk.Event) {
	switch {
	case e.Type == zk.EventNodeDeleted || e.Type == zk.EventNodeDataChanged:
		ss.fire(e.Path, e.Type == zk.EventNodeDeleted)
	case e.Type != zk.EventSession:
	case e.State == zk.StateHasSession:
		ss.connected()
	case e.State == zk.StateDisconnected:
		ss.disconnected()
	case e.State == zk.StateExpired:
		ss.lose(errors.New("the servers ended the session"))
	}
}

func (ss *session) connected() {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	if ss.loggedIn || ss.cfg.credentials == nil {
		ss.setConnected()
		return
	}
	ss.spawn(func() { // the client logs in by itself when it connects again
		err := ss.logIn()
		ss.mu.Lock()
		defer ss.mu.Unlock()
		if ss.loggedIn = err == nil; ss.loggedIn {
			ss.setConnected()
		} else {
			ss.lose(fmt.Errorf("the login failed: %w", err))
		}
	})
}

func (ss *session) logIn() error {
	user, password, err := ss.cfg.credentials(ss.bound)
	if err != nil {
		return err
	}
	if err := checkUser(user); err != nil {
		return err
	}
	return ss.conn.AddAuth("digest", []byte(user+":"+password))
}

// unreachable is called when the client has tried every server without success. It closes the
// channel ss.down.
func (ss *session) unreachable() {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	select {
	case <-ss.down:
	default:
		close(ss.down)
	}
}

// trouble returns a channel that is closed when the client has tried every server without success,
// and the last error of dial.
func (ss *session) trouble() (<-chan struct{}, error) {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	return ss.down, ss.dialErr
}

// setConnected records that the session can be used. It wakes all waiters, which then read their
// queues again, because a watch or an event may have been lost with the old connection. The client
// reports the new connection before it reports events that come over this connection. The caller
// must hold ss.mu.
func (ss *session) setConnected() {
	select {
	case <-ss.up:
		return
	default:
	}
	close(ss.up)
	ss.down = make(chan struct{})
	for _, w := range ss.watches {
		close(w.done)
	}
	clear(ss.watches)
}

func (ss *session) disconnected() {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	select {
	case <-ss.up:
		ss.up = make(chan struct{})
	default:
	}
}

// online returns a channel that is closed when the session is connected.
func (ss *session) online() <-chan struct{} {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	return ss.up
}

// alive reports whether the session certainly still exists at the servers.
func (ss *session) alive() bool {
	if ss.bound.Err() != nil {
		return false
	}
	if ss.clock.Now() >= ss.known.endTime() {
		ss.lose(errSilent)
		return false
	}
	return true
}

var errSilent = errors.New("the servers have not answered for the session timeout")

// lose ends the session. It closes the client in the background, because that can take a second.
func (ss *session) lose(why error) {
	if ss.bound.Err() != nil {
		return
	}
	ss.end(fmt.Errorf("%w: the ZooKeeper session ended: %w", driver.ErrLost, why))
	ss.spawn(ss.conn.Close)
}

// keepAlive sends a request to the leader from time to time, until the session ends. If no answer
// has come for so long that the servers may have ended the session, keepAlive ends the session
// itself.
func (ss *session) keepAlive() {
	timer := make(chan struct{}, 1)
	var asking sync.Mutex
	for ss.alive() {
		every := ss.known.length() / 10
		pause := min(every, ss.known.endTime().Sub(ss.clock.Now()))
		if nap := ss.clock.Nap(); nap > 0 {
			pause = min(pause, nap)
		}
		stop := ss.clock.AfterFunc(max(pause, time.Millisecond), func() { timer <- struct{}{} })
		select {
		case <-timer:
		case <-ss.bound.Done():
			stop()
			return
		}
		if asking.TryLock() {
			ss.spawn(func() {
				defer asking.Unlock()
				ss.askLeader()
			})
		}
		ss.drop()
	}
}

// askLeader sends a request that goes through the leader, if the session is connected. Then it
// calls watchHolds.
func (ss *session) askLeader() {
	select {
	case <-ss.online():
		_, _ = ss.conn.Sync(ss.cfg.root)
	default:
		return
	}
	ss.watchHolds(ss)
}

// drop closes a connection whose server has been silent for a quarter of the session timeout, so
// that the client has time to try the next server. The client itself would wait for two thirds of
// the timeout.
func (ss *session) drop() {
	ss.mu.Lock()
	w := ss.wire
	ss.mu.Unlock()
	if w != nil && w.silent() > ss.known.length()/4 {
		w.Close()
	}
}
