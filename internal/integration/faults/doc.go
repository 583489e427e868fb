// Package faults has only tests. They use quorums of real Redis servers through proxies that lose,
// delay and cut connections. To run a named scenario, use -run with TRL1 to TRL5, or TC1. Those of
// a single server are in redisstore: T-R1 TestLostReply, T-R2 TestRestartGuard, T-R4
// TestEvictionPolicyIsRefused.
package faults
