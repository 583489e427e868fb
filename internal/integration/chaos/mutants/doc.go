// Package mutants breaks a store in typical ways and shows that the soak notices it. So its tests
// test the checkers.
package mutants
