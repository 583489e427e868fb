// Package house contains only tests. CONTRIBUTING.md lists rules for the files of this repository,
// and the tests check whether the files comply with them.
package house
