// Package house has no code. Its tests keep the rules that CONTRIBUTING.md
// lists: which package may import which, how long functions and files may be, what has to
// be documented, and what must not be in the tree.
package house
