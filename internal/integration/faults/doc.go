// Package faults has only tests. They use quorums of real Redis servers through proxies that lose,
// delay and cut connections. Each scenario has a name for -run: TRL1 to TRL5, and TC1. The
// scenarios for a single server are tests in redisstore: T-R1 is TestLostReply, T-R2 is
// TestRestartGuard, and T-R4 is TestEvictionPolicyIsRefused.
package faults
