// Package faults has only tests. They use quorums of real Redis servers through proxies that lose,
// delay and cut connections. The test of each scenario can be selected with -run and a name: TRL1
// to TRL5, or TC1. Package redisstore tests the scenarios for a single server: T-R1 in
// TestLostReply, T-R2 in TestRestartGuard, and T-R4 in TestEvictionPolicyIsRefused.
package faults
