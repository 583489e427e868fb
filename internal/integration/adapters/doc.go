// Package adapters tests the adapters of the tree, and the code of the page docs/adapters.md, with
// the true libraries, on Redis, SQLite and files, in several processes. The page has the code in
// the files named after a library, or links to it. The files with the tag clientgo are compiled by
// .ci/test-leaderelection only, because client-go takes six minutes with -race. make release-check
// runs it.
package adapters
