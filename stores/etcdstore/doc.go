// Package etcdstore keeps locks in etcd.
//
// Use it if you run etcd already. If you need leases below 2 s, use package redisstore or sqlstore
// instead.
//
//	store, err := etcdstore.Open(ctx, etcdstore.Config{Endpoints: []string{"localhost:2379"}})
//
// If the data that a lock protects is in etcd too, add [Store.IsHolder] to the comparisons of your
// own transactions. The server then rejects the transaction if the lock was lost.
//
// Each hold is a key with a lease, so the leader of the cluster decides when a hold expires. To
// acquire a free lock takes one transaction, and to release it takes one request.
// docs/stores/etcd.md lists the promises and the load.
//
// It is a core store: see docs/which-store.md, "Core stores and guests".
package etcdstore
