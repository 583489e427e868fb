// Package open opens a store from its URL. So a configuration can choose the place where a program
// keeps its locks.
//
// Use it if an operator chooses the store. A program that always has the same kind of store should
// call Open of that store instead, whose options the compiler checks.
//
// Without options it knows file:///DIRECTORY and memory:. It also knows quorum: and all:, which
// combine other stores. A program adds the server stores that it needs, and links only their
// clients:
//
//	store, err := open.Store(ctx, "redis://localhost", open.Schemes(redisstore.Scheme()))
//
// Package open/all, which is a separate module, knows every store of padlock.
package open
