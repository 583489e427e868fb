// Package padlockweb shows the locks of a store on a web page: which locks are held and by whom,
// which are stuck, and for which many callers wait. It needs the standard library only.
//
// Use it if people should see the locks in your own server. If they should see them without a
// program of yours, start "padlock serve" instead, which shows the same pages.
//
//	tokens, err := padlockweb.OpenTokens("/etc/padlock/tokens")
//	…
//	web := padlockweb.Handler(locker, padlockweb.Accept(tokens))
//	defer web.Close()
//	http.Handle("/locks/", http.StripPrefix("/locks", web))
//
// These are the paths below the one where the Handler is mounted:
//
//	/            the table of names, stuck and hot first
//	/name?n=     one name: its holders, waiters and past holds
//	/jobs        the last run of each name, failed and overdue first, with History
//	/break?n=    the form that breaks a lock, with AllowBreak
//	/login       the form that takes a token, with Accept
//	/events      the changes of a page, as server-sent events
//	/api/locks   what the table shows, as JSON
//	/metrics     figures in the text format of Prometheus
//	/healthz     200 while the Handler works
//	/readyz      200 while the store can be read, otherwise 503
//
// The pages change by themselves. Without a script they reload every few seconds. A Sampler of
// package sampler reads the store, so the page also shows locks that PHP, redsync or flock(1) took.
//
// # Rights
//
// The Handler is read-only unless AllowBreak is given. With Accept it asks for a token from a file,
// with Authorize it asks a function of your own, and with ReadWithoutToken each visitor may read
// everything: then protect the path as you protect the rest of your server. Without any of the
// three, or if Accept or Authorize got nil, nobody sees a lock, whatever the other options say:
// each page with locks, the events, the JSON and the metrics are refused with status 403. A visitor
// whose right is bound to a prefix sees and breaks only names that begin with it, on every page, in
// the events, the JSON and the metrics.
//
// Only a visitor with a name and with RightBreak can break a lock. The visitor must give a reason,
// and the request must contain the fence that the visitor saw. The option Logger gets a record for
// each break and for each refused request.
//
// # Limits
//
// The Handler limits bodies and open streams, and gives a slow reader of a stream 10 seconds for
// each event. It does not limit how long a request takes to arrive, or how many connections there
// are. For that, set ReadHeaderTimeout, ReadTimeout, WriteTimeout and IdleTimeout of the
// http.Server, as padlock serve does.
package padlockweb
