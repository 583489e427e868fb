// Package faults has tests only: quorums of real Redis servers, reached through
// proxies that lose, delay and cut what passes. The named scenarios are found
// with -run: TRL1 to TRL5, TC1. Those of a single server are with redisstore:
// T-R1 TestLostReply, T-R2 TestRestartGuard, T-R4 TestEvictionPolicyIsRefused.
package faults
