// Package padlockapi makes an HTTP API of the locks of a store, for programs in every language. It
// needs the standard library only. The command padlock serve --api has it built in.
//
// Use it if programs that are not written in Go take locks, or must not reach the store itself. In
// Go, use package padlock with the store instead, which needs no server in between, or with package
// httpstore, which is a client of this API.
//
//	tokens, err := padlockweb.OpenTokens("/etc/padlock/tokens")
//	…
//	api := padlockapi.Handler(store, padlockapi.Accept(tokens))
//	defer api.Close()
//	http.Handle("/v1/", api)
//
// Every request is a POST with one JSON object, so that names and tokens are never in a URL:
//
//	/v1/acquire   takes a lock, and may wait for it
//	/v1/extend    extends the lease of a lock, or verifies the lock
//	/v1/release   releases a lock, or gives up the wait for it
//	/v1/status    returns the holders of a name
//	/v1/list      lists the names that begin with a prefix
//	/v1/break     ends the holds of a name by force, with AllowBreak
//	/v1/ask       asks the holder of a name to finish early
//	/v1/store     returns what the store promises
//
// GET /v1/openapi.json returns the description of all of them in OpenAPI 3.1.
//
// # The promises
//
// The Handler never renews a lock. The client does, and a lock whose client is gone ends with its
// lease. Close, and the end of the process, lose the places of waiters and no locks.
//
// The client makes a token for each piece of work. While the token has the lock, a repeated acquire
// finds the same hold with the same fence, also by another server on the same store. A client sends
// the same token again only if it got no answer, or the status 202, 429, 503 or 504. After 409 it
// makes a new one.
//
// The field valid_ms of an answer counts from the moment at which the client sent the request, even
// after a long wait. So the client needs its own clock only, and a late answer is never believed
// for too long.
//
// A request waits for at most MaxPoll. Then the answer is 202, and the client keeps its place for
// Grace: it sends the same request again. A client that disconnects keeps its place as long.
//
// # Rights
//
// Without Accept, Authorize and WithoutToken nobody may do anything. A visitor may have the rights
// to read, to acquire, to break and to ask, for all names or for those that begin with a prefix. A
// visitor with Tenant has names of its own: the Handler puts the prefix before each of them, and
// takes it away again.
//
// # Limits
//
// The Handler limits bodies, waits and names for each visitor. It does not limit connections, or
// how long a request takes to arrive. For that, set ReadHeaderTimeout, ReadTimeout and IdleTimeout
// of the http.Server, as padlock serve does. The Handler itself lifts the limits of a connection
// while a request waits.
//
// Stores whose locks have no lease answer 501 to acquire, and so does a quorum.
package padlockapi
