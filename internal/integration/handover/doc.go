// Package handover has only tests. Locks go from one goroutine to the next, in processes that share
// names on a real server.
package handover
