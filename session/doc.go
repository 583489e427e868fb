// Package session keeps web sessions that lose nothing when many requests of
// one visitor come at once.
//
//	locker := padlock.New(memstore.New())
//	sessions, err := session.New(session.NewMemory(), session.Locker(locker))
//	http.ListenAndServe(addr, sessions.Middleware(mux))
//
//	func addToCart(w http.ResponseWriter, r *http.Request) {
//		s := session.From(r.Context())
//		cart, err := session.Get[Cart](s, "cart")
//		…
//		err = s.Put("cart", cart)
//	}
//
// A session is loaded at its first use, and saved before the first byte of the
// answer. A request that does not use it costs nothing and gets no cookie.
//
// # Modes
//
// [Delta], the default, takes no lock while the handler works. It saves the
// keys that this request wrote, and only if those that it had read are what
// they were; otherwise the answer is 409 and nothing is saved. A key that is
// put without having been read is simply set: the last one wins. Keys that
// were read and not written are not compared, unless [Session.Watch] asks for
// it.
//
// [Exclusive] takes the session's lock at the first use and keeps it until the
// session is saved: requests of one session come one after the other.
// [ReadOnly] refuses writes and never waits. [LastWriteWins] is Delta
// without any comparison.
//
// In every mode a session that was destroyed stays destroyed: a late save is an
// error, also on a route that takes the lock inside of a layer that had used the
// session without it. What such a layer read counts as in Delta.
//
// # Values
//
// Values are encoded one by one, when they are put. What Get returns is a copy:
// a map or a slice that is changed in place must be put again to be saved.
// [Development] reports it when that was forgotten.
//
// # Errors
//
// When a session cannot be loaded or saved, or a Put was refused, the handler's
// answer is replaced by 409 or 503, unless that answer is an error of its own.
// [Session.Abandon] lets a handler go on without its session, and
// [Session.IgnoreRefused] without the refused Put.
package session
