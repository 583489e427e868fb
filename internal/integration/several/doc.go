// Package several has tests for all stores, with real servers and processes. They test slots, locks
// on several names at once, and elections. The tests have the names of known bugs of other
// libraries.
package several
