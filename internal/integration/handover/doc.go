// Package handover has tests only: locks that go from one goroutine to the next
// in processes that share names on a real server.
package handover
