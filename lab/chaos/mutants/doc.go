// Package mutants breaks a store in typical ways and shows that the soak notices it. So these tests
// test the checkers of the soak.
package mutants
