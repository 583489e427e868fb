// Package etcdstore keeps locks in etcd.
//
//	store, err := etcdstore.Open(ctx, etcdstore.Config{Endpoints: []string{"localhost:2379"}})
//
// If the data that a lock protects is in etcd too, add [Store.IsHolder] to the comparisons of your
// own transactions. The server then refuses a write of a holder that has lost its lock.
//
// Each hold is a key with a lease, so the leader of the cluster measures time. An uncontended
// Acquire is one transaction and a Release is one request. docs/stores/etcd.md lists the promises,
// the keys and the load.
package etcdstore
