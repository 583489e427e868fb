package etcdstore

import (
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/padlock-go/padlock/internal/server"
)

// A waiter that reads the queue and then watches it may find that the revision it has read was
// compacted meanwhile. Its watch ends at once, and not after the time that a watch may last, so the
// waiter reads the queue again.
func TestWatchOfACompactedRevision(t *testing.T) {
	t.Parallel()
	srv := server.Etcd(t, server.EtcdOptions{})
	s := opened(t, srv.Addr())
	client, err := s.conn.getClient(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var revisions []int64
	for range 3 {
		reply, err := client.Put(t.Context(), "key", "")
		if err != nil {
			t.Fatal(err)
		}
		revisions = append(revisions, reply.Header.Revision)
	}
	if _, err := client.Compact(t.Context(), revisions[2]); err != nil {
		t.Fatal(err)
	}
	ended := make(chan int)
	go func() {
		events := 0
		s.watch(t.Context(), time.Hour, "key", revisions[0], func(*clientv3.Event) bool { events++; return true })
		ended <- events
	}()
	select {
	case events := <-ended:
		if events != 0 {
			t.Error("the server still has the history, so the test shows nothing")
		}
	case <-time.After(30 * time.Second):
		t.Error("the watch goes on")
	}
}
