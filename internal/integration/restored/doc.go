// Package restored has only tests. In each of them, an operator puts a backup back while processes
// hold locks and wait. docs/restored.md has the results as a table.
package restored
