package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/stores/redisstore"
)

// line is the network of one process. After cut, all connections are closed and no new one can be
// made, as if the process had been killed.
type line struct {
	mu    sync.Mutex
	gone  bool
	conns []net.Conn
}

func (l *line) dial(ctx context.Context, network, address string) (net.Conn, error) {
	c, err := new(net.Dialer).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.gone {
		return nil, errors.Join(errors.New("the process is gone"), c.Close())
	}
	l.conns = append(l.conns, c)
	return c, nil
}

func (l *line) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.gone = true
	for _, c := range l.conns {
		c.Close()
	}
}

// TestDeadWaitersInACluster: eight waiters whose processes are gone stand in front of a living one.
// The first release removes all of them, because the name's primary knows that they have no
// connection. Without that, each of them would delay the living one by the time of a reservation.
func TestDeadWaitersInACluster(t *testing.T) {
	server.Thorough(t)
	t.Parallel()
	nodes := server.RedisCluster(t)
	first := clusterStore(t, "redis+cluster://"+nodes[0].Addr())
	living := clusterStore(t, "redis+cluster://"+nodes[1].Addr())
	for _, name := range []string{nameOn(t, nodes[0], "job"), nameOn(t, nodes[2], "job")} {
		r := request(name)
		take(t, first, r)
		var l line
		s, err := redisstore.Open(t.Context(), redisstore.Config{Addrs: []string{nodes[0].Addr()}, Cluster: true, Dial: l.dial}, fresh(nil)...)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		for range 8 {
			waits(t, s, name)
		}
		w := waits(t, living, name)
		l.cut()
		eventually(t, "the servers notice it", func() bool {
			return !slices.ContainsFunc(nodes, func(n *server.Server) bool { return len(shardChannels(t, n)) > 1 })
		})
		began := time.Now()
		free(t, first, r)
		st, err := first.Inspect(t.Context(), name)
		if reserved := len(st.Holds) == 1 || time.Since(began) > driver.MaxReservation; err != nil || st.Waiters != 0 || !reserved {
			t.Errorf("after the release: %+v, %v", st, err)
		}
		_, at := w.got()
		t.Logf("eight dead waiters ahead cost %v", at.Sub(began).Round(time.Millisecond))
		free(t, living, w.r)
	}
}

// TestWaiterAtAReplica: a sharded message also reaches the subscribers at a replica, which may have
// been the primary a moment ago. A release does not count these subscribers, and takes the name
// away from the waiter. So the release must not tell the waiter that it has the name.
func TestWaiterAtAReplica(t *testing.T) {
	server.Thorough(t)
	t.Parallel()
	nodes := server.RedisCluster(t)
	replica := server.RedisClusterReplica(t, nodes, 0)
	s := clusterStore(t, "redis+cluster://"+nodes[1].Addr())
	name := nameOn(t, nodes[0], "job")
	r := request(name)
	take(t, s, r)
	w := waits(t, clusterStore(t, "redis+cluster://"+nodes[1].Addr()), name)
	id, n := "", 0
	for id == "" || !ownsSlot(t, nodes[0], "padlock:s:"+id) {
		id = fmt.Sprintf("%017x", n)
		n++
	}
	moveWaiter(t, nodes[0], w, id)
	got := subscribe(t, replica, "padlock:s:"+id)
	free(t, s, r)
	if at := ask(t, nodes[0], "SPUBLISH", "padlock:s:"+id, "end"); at != "0" {
		t.Fatalf("%s subscribers at the primary", at)
	}
	for m := range got {
		if m == "end" {
			break
		}
		if strings.HasPrefix(m, "h ") {
			t.Errorf("the waiter has heard %q", m)
		}
	}
}

// moveWaiter changes the channel of a waiter in its record at the server.
func moveWaiter(t *testing.T, srv *server.Server, w *waiting, id string) {
	t.Helper()
	c := rawClient(t, single(srv.Addr()))
	key, field := companion(t, c, "h", w.r.Name), "w"+w.r.Token.Text()
	parts := strings.SplitN(askBy(t, c, "HGET", key, field), " ", 4)
	if len(parts) != 4 {
		t.Fatalf("the waiter's record is %q", parts)
	}
	parts[2] = id
	askBy(t, c, "HSET", key, field, strings.Join(parts, " "))
}

// subscribe returns the sharded messages of a channel that arrive at a replica.
func subscribe(t *testing.T, replica *server.Server, channel string) <-chan string {
	t.Helper()
	got := make(chan string, 16)
	d, giveBack := rawClient(t, single(replica.Addr())).Dedicate()
	t.Cleanup(giveBack)
	d.SetPubSubHooks(rueidis.PubSubHooks{OnMessage: func(m rueidis.PubSubMessage) { got <- m.Message }})
	for _, c := range []rueidis.Completed{d.B().Readonly().Build(), d.B().Ssubscribe().Channel(channel).Build()} {
		if err := d.Do(t.Context(), c).Error(); err != nil {
			t.Fatal(err)
		}
	}
	return got
}
