// Package overhttp has only tests. They run the suite of stores on httpstore, over a server of the
// HTTP API whose locks are in a real Redis.
package overhttp
