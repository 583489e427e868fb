// Package open makes a store from its URL, so that a program, or the padlock
// command, can be told where its locks are kept.
//
// It is a module of its own: who imports it gets the clients of all stores.
// A program that knows its store imports that store alone.
package open
