// Package session keeps web sessions. It loses no data when many requests of one visitor come at
// the same time.
//
//	locker := padlock.New(memstore.New())
//	sessions, err := session.New(sessionstore.NewMemory(), session.Locker(locker))
//	http.ListenAndServe(addr, sessions.Middleware(mux))
//
//	func addToCart(w http.ResponseWriter, r *http.Request) {
//		s := session.From(r.Context())
//		cart, err := session.Get[Cart](s, "cart")
//		…
//		err = s.Put("cart", cart)
//	}
//
// A session is loaded at its first use, and saved before the first byte of the answer. A request
// that does not use its session costs nothing and gets no cookie.
//
// Use it if requests of one visitor can write at the same time, as tabs and scripts do. If your
// sessions are only read after the login, a signed cookie needs no store; use that instead.
//
// # Packages
//
// A store comes from another package: sessionstore.NewMemory keeps sessions in this process,
// package sqlsession in a database, and package redissession in Redis. Package phpsession shares
// the sessions of a PHP application.
//
// # Modes
//
// [Delta], the default, takes no lock while the handler works. It saves the keys that the request
// wrote. If the request read a key and then wrote it, and another request has changed that key
// meanwhile, the answer is 409 and nothing is saved. If the request wrote a key without reading it,
// the last write wins. Keys that the request only read are not compared, unless [Session.Watch]
// names them.
//
// [Exclusive] takes the session's lock at the first use and keeps it until the session is saved. So
// the requests of one session run one after the other. [ReadOnly] refuses writes and never waits.
// [LastWriteWins] is Delta without any comparison.
//
// In every mode a session that was destroyed stays destroyed: a late save is an error.
//
// [Manager.With] gives a route its own mode. An outer handler may have read the session without the
// lock. The keys that it read are then compared as in Delta, even if the route takes the lock.
//
// # Values
//
// Values are encoded one by one, when they are put. Get returns a copy: a map or a slice that is
// changed in place must be put again to be saved. [Development] reports values that were changed
// and not put.
//
// # Errors
//
// When a session cannot be loaded or saved, or a Put was refused, the handler's answer is replaced
// by 409 or 503, unless that answer is itself an error. [Session.Abandon] lets a handler continue
// without its session, and [Session.IgnoreRefused] lets it continue without the refused Put.
//
// # Versions
//
// Stored sessions carry the number of their format. If a session is in a format that is too new for
// this version, the error is [ErrRefused] and the session stays as it is. So two versions of
// padlock may serve the same sessions. docs/sessions.md says how to upgrade and to go back.
package session
