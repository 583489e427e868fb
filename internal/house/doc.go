// Package house has no code. Its tests hold the rules of the tree that CONTRIBUTING.md lists.
package house
