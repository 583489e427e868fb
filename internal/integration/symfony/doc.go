// Package symfony has only tests. They run the store of sqlstore/symfony on real databases. The
// tests with real PHP are in the package peers.
package symfony
