// Package natsstore keeps locks in a key-value bucket of NATS JetStream: each name is a key, and
// each change of it names the revision that it replaces.
//
// Use it if your programs have a NATS server with JetStream anyway. If waiters must take turns, use
// package redisstore or etcdstore instead. If a machine that loses its power must not lose locks,
// use etcdstore or sqlstore, or let the NATS servers write to disk at once.
//
// The page docs/stores/nats.md says what the store promises, what it costs, and which rights it
// needs.
package natsstore
