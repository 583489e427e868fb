// Package adapters tests the adapters of the tree, and the code of the page docs/adapters.md, with
// the true libraries, on Redis, SQLite and files, in several processes. The page has the code in
// the files named after a library, or links to it.
package adapters
