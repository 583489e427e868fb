package restored

import (
	"testing"

	"github.com/padlock-go/padlock/internal/server"
)

// TestEtcd puts a copy of the data directory back.
func TestEtcd(t *testing.T) {
	t.Parallel()
	s := server.Etcd(t, server.EtcdOptions{})
	t.Log(copied(t, s, "etcd", "etcd://"+s.Addr()+"/").play(t))
}

// TestZooKeeper puts a copy of the data directory back.
func TestZooKeeper(t *testing.T) {
	t.Parallel()
	s := server.ZooKeeper(t, server.ZooKeeperOptions{})
	t.Log(copied(t, s, "version-2", "zookeeper://"+s.Addr()+"/locks?session-timeout=3s").play(t))
}
