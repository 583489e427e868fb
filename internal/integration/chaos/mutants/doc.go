// Package mutants breaks a store in the ways in which stores are broken, and
// shows that the soak sees it. Its tests are the tests of the checkers.
package mutants
