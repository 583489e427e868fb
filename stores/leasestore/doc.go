// Package leasestore keeps locks in the Lease objects of a Kubernetes cluster. A pod needs no
// server and no settings for it, only the rights to these objects. It is not tried yet with an API
// server of Kubernetes.
//
// Use it for jobs and programs in a cluster that share no server. If locks change hands more than a
// few times a minute, if there are hundreds of them at a time, or if waiters must take turns, use
// package redisstore, etcdstore or sqlstore instead: each change is a write to the etcd of the
// cluster.
//
// The page docs/stores/kubernetes.md says what the store promises, what it costs the cluster, and
// which rights it needs.
//
// It is a core store: see docs/which-store.md, "Core stores and guests".
package leasestore
