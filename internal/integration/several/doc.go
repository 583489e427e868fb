// Package several tests slots, several names and elections on every store, with real servers and
// processes. Its tests have the names of known bugs of other libraries.
package several
