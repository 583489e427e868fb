package etcdstore_test

import (
	"context"
	"log"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/stores/etcdstore"
)

// The data are in etcd too. The transaction writes them only if this process still has the lock.
func Example() {
	ctx := context.Background()
	endpoints := []string{"localhost:2379"}
	client, err := clientv3.New(clientv3.Config{Endpoints: endpoints})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	store, err := etcdstore.Open(ctx, etcdstore.Config{Endpoints: endpoints})
	if err != nil {
		log.Fatal(err)
	}
	locker := padlock.New(store)
	defer locker.Close(ctx)

	lock, err := locker.Acquire(ctx, "nightly-report")
	if err != nil {
		log.Fatal(err)
	}
	defer lock.Release()
	reply, err := client.Txn(ctx).If(store.IsHolder(lock)...).Then(clientv3.OpPut("report", "done")).Commit()
	if err != nil {
		log.Fatal(err)
	}
	if !reply.Succeeded {
		log.Print("the lock is lost, and nothing was written")
	}
}
