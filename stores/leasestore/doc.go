// Package leasestore keeps locks in the Lease objects of a Kubernetes cluster. A pod needs no
// server and no settings for it, only the rights to these objects. It is not tried yet with an API
// server of Kubernetes.
//
// The page docs/stores/kubernetes.md says what the store promises, what it costs the cluster, and
// which rights it needs.
package leasestore
