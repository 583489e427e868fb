package restored

import (
	"testing"
	"time"

	"github.com/padlock-go/padlock/internal/server"
)

// TestEtcd puts a copy of the data directory back.
func TestEtcd(t *testing.T) {
	t.Parallel()
	s := server.Etcd(t, server.EtcdOptions{})
	copied(t, s, "etcd", "etcd://"+s.Addr()+"/").play(t, want{late: 2 * time.Second, waiter: 10 * time.Second})
}

// TestZooKeeper puts a copy of the data directory back.
func TestZooKeeper(t *testing.T) {
	t.Parallel()
	s := server.ZooKeeper(t, server.ZooKeeperOptions{})
	copied(t, s, "version-2", "zookeeper://"+s.Addr()+"/locks?session-timeout=3s").play(t, want{lost: true, falls: true})
}
