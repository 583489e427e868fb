// Package dynamostore keeps locks in a table of Amazon DynamoDB, or of a service that speaks like
// it. There is no server to run: each name is an item, and each change of it is a conditional
// write.
//
// Use it for jobs and machines in Amazon's cloud that share no server. If locks change hands more
// than a few times a minute, if waiters must take turns, or if you need leases below 10 s, use
// package redisstore or sqlstore instead.
//
// The page docs/stores/dynamodb.md says what the store promises, what it costs, and which rights it
// needs.
//
// It is a guest: see docs/which-store.md, "Core stores and guests".
package dynamostore
