package restored

import (
	"testing"
	"time"

	"github.com/padlock-go/padlock/internal/server"
)

// TestEtcd puts a copy of the data directory back.
func TestEtcd(t *testing.T) {
	t.Parallel()
	server.Thorough(t)
	each(t, "copy", want{lives: true, late: 5 * time.Second, waiter: 10 * time.Second}, func(t *testing.T) place {
		return copied(t, server.Etcd(t, server.EtcdOptions{}), "etcd", "etcd://%s/")
	})
}

// TestZooKeeper puts a copy of the data directory back.
func TestZooKeeper(t *testing.T) {
	t.Parallel()
	server.Thorough(t)
	each(t, "copy", want{lives: true, falls: true, late: 2 * time.Second}, func(t *testing.T) place {
		return copied(t, server.ZooKeeper(t, server.ZooKeeperOptions{}), "version-2", "zookeeper://%s/locks?session-timeout=3s")
	})
}
