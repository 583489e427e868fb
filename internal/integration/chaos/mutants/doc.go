// Package mutants breaks a store in the ways in which stores are broken, and shows that the soak
// notices it. Its tests test the checkers.
package mutants
