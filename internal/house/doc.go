// Package house contains only tests. They check the rules for the tree that CONTRIBUTING.md lists.
package house
