// Package several has tests for all stores, with real servers and processes. They test slots, locks
// on several names at once, and elections. Most tests are named after a known bug of another
// program.
package several
