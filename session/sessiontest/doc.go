// Package sessiontest checks that a store of sessions keeps the contract of
// session.Store. It is for those who write one.
package sessiontest
