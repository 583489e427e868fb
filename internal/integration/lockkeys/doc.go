// Package lockkeys has only tests. They run the store of sqlstore/lockkeys on real databases. The
// tests with real PHP are in the package peers.
package lockkeys
