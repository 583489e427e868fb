// Package open opens a store from its URL, so that a program can be configured to keep its locks
// anywhere.
//
// By itself it knows file:///DIRECTORY, memory:, and quorum: and all: of other stores. A program
// adds the stores on a server that it wants, and links their clients only:
//
//	store, err := open.Store(ctx, "redis://localhost", open.Schemes(redisstore.Scheme()))
//
// Package open/all, a module of its own, knows every store of padlock.
package open
