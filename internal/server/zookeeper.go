package server

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"
)

// ZooKeeperOptions are the settings of a ZooKeeper server. Nothing is synced to disk, so the data
// survive a crash of the server, but not of the machine.
type ZooKeeperOptions struct {
	Tick time.Duration // sessions end at multiples of Tick; 0 stands for 100 ms
	Java []string      // further arguments of java, such as -Dzookeeper.skipACL=yes
	Conf []string      // further lines of the configuration file

	// Via returns the address at which one server of an ensemble connects to another one. Its
	// arguments are the numbers of the two servers, counted from 0, and the real address of the
	// second one. A test can use Via to put proxies between the servers.
	Via func(from, to int, addr string) string
}

// ZooKeeper starts a ZooKeeper server that allows session timeouts from 200 ms to one minute.
func ZooKeeper(t testing.TB, o ZooKeeperOptions) *Server {
	t.Helper()
	needZooKeeper(t)
	return Start(t, zooKeeperSpec(o, zooKeeperReady, ""))
}

// needZooKeeper skips the test if the server is not installed.
func needZooKeeper(t testing.TB) {
	t.Helper()
	if err := findZooKeeper(); err != nil {
		missing(t, err)
	}
}

// findZooKeeper returns an error if the server's Java classes are missing. A machine may have java
// without them.
func findZooKeeper() error {
	_, err := os.Stat("/usr/share/java/zookeeper.jar")
	if err != nil {
		err = fmt.Errorf("zookeeper is not installed: Debian package zookeeper has it, and `SETUP=yes make test` installs it: %w", err)
	}
	return err
}

// ZooKeeperEnsemble starts n servers that elect a leader, and returns when each of them serves
// clients.
func ZooKeeperEnsemble(t testing.TB, n int, o ZooKeeperOptions) []*Server {
	t.Helper()
	needZooKeeper(t)
	peers := make([][2]int, n) // the ports for data and for elections
	for i := range peers {
		for j := range peers[i] {
			r, err := reserve()
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = r.release() })
			peers[i][j] = r.port
		}
	}
	var servers []*Server
	for i := range n {
		spec := zooKeeperSpec(o, acceptsClients, o.peers(i, peers))
		spec.Prepare = func(ctx context.Context, p Place) error {
			return p.Write("myid", fmt.Appendln(nil, i+1))
		}
		servers = append(servers, Start(t, spec))
	}
	allReady(t, servers, zooKeeperReady)
	return servers
}

// peers returns the lines about the ensemble in the configuration of server i.
func (o *ZooKeeperOptions) peers(i int, ports [][2]int) string {
	limit := int(10 * time.Second / o.tick()) // in ticks; a server on a busy machine may stand still for seconds
	lines := fmt.Sprintf("initLimit=%d\nsyncLimit=%d\n", limit, limit)
	for j, p := range ports {
		data := fmt.Sprintf("127.0.0.1:%d", p[0])
		if o.Via != nil && i != j {
			data = o.Via(i, j, data)
		}
		lines += fmt.Sprintf("server.%d=%s:%d\n", j+1, data, p[1])
	}
	return lines
}

func zooKeeperSpec(o ZooKeeperOptions, ready func(context.Context, Place) error, peers string) Spec {
	return Spec{
		Name:    "zookeeper",
		Package: "zookeeper",
		Binary:  []string{"java"},
		Ready:   ready,
		URL:     func(p Place) string { return "zookeeper://" + p.Addr() },
		Args: func(p Place) []string {
			if err := p.Write("zoo.cfg", []byte(o.file(p)+peers)); err != nil {
				return nil // java then fails, because its arguments are missing
			}
			args := []string{"-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xmx256m", "-Dzookeeper.forceSync=no"}
			args = append(args, o.Java...)
			return append(args, "-cp", "/usr/share/java/*", "org.apache.zookeeper.server.quorum.QuorumPeerMain", p.Path("zoo.cfg"))
		},
	}
}

func (o *ZooKeeperOptions) tick() time.Duration { return cmp.Or(o.Tick, 100*time.Millisecond) }

// file returns the configuration of a server without an ensemble.
func (o *ZooKeeperOptions) file(p Place) string {
	lines := []string{
		fmt.Sprintf("tickTime=%d", o.tick().Milliseconds()),
		"dataDir=" + p.Dir,
		fmt.Sprintf("clientPort=%d", p.Port),
		"clientPortAddress=127.0.0.1",
		"admin.enableServer=false",
		"minSessionTimeout=200", "maxSessionTimeout=60000", "maxClientCnxns=0",
	}
	return strings.Join(append(lines, o.Conf...), "\n") + "\n"
}

// zooKeeperReady asks the server for its mode. A server has a mode only when it serves clients.
func zooKeeperReady(ctx context.Context, p Place) error {
	said, err := ZooKeeperSays(ctx, p.Addr(), "srvr")
	if err == nil && !strings.Contains(said, "Mode: ") {
		err = fmt.Errorf("it says %q", said)
	}
	return err
}

// ZooKeeperSays sends a command of four letters, such as "stat", to a ZooKeeper server, and returns
// the answer.
func ZooKeeperSays(ctx context.Context, addr, command string) (string, error) {
	conn, err := dial(ctx, addr, time.Second)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, command); err != nil {
		return "", err
	}
	said, err := io.ReadAll(conn)
	return string(said), err
}

// acceptsClients reports whether the server accepts connections. It succeeds even before there is a
// leader. The servers are started one by one, and the first ones have no leader yet.
func acceptsClients(ctx context.Context, p Place) error {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", p.Addr())
	if err != nil {
		return err
	}
	return conn.Close()
}
