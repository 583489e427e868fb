// Package dynamostore keeps locks in a table of Amazon DynamoDB, or of a service that speaks like
// it. There is no server to run: each name is an item, and each change of it is a conditional
// write.
//
// The page docs/stores/dynamodb.md says what the store promises, what it costs, and which rights it
// needs.
package dynamostore
