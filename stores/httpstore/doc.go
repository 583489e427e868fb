// Package httpstore keeps locks in a store that a server of padlock offers over HTTP: padlock serve
// --api, or a program with package padlockapi. The locks are the same as those of programs that
// reach the store itself.
//
// Use it if a program must not reach the store itself, or has no way to it: the server's tokens say
// who may take which names. If the program can reach the store, use the package of that store
// instead: it needs no server in between, and can do more.
//
// The page docs/stores/http.md says what the store promises and what it cannot do.
//
// It is a core store: see docs/which-store.md, "Core stores and guests".
package httpstore
