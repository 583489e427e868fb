// Package newest explores package newest: three or four callers, each with a Locker of its own, on a
// store whose every request stops until the explorer moves it. Since one arrival makes a dozen requests,
// it does not try every order, but every run with a bounded number of deviations from the run in which
// everything goes in order (as Musuvathi and Qadeer, Iterative Context Bounding for Systematic Testing
// of Multithreaded Programs, PLDI 2007, bound preemptions).
//
// In order means: the oldest request arrives and is answered; a caller arrives when nothing is under
// way; a turn lasts for a second and a half; time passes to the next timer when nothing else can happen.
//
// A run breaks a promise if
//
//   - two callers have a turn at once, or a fence does not rise;
//   - a turn is older than one that was had before, however long its caller was paused;
//   - a caller gets its turn although a newer one waited when it got the lock, and waits still;
//   - a caller is dropped, and no newer one has got the lock. Only one that was stopped for keepLast, less
//     two lost replies, may be dropped because it could not look;
//   - a caller whose requests all went well returns another error, or a cancelled one returns an error
//     that does not tell of its context;
//   - the newest caller that lives, and whose requests all went well, had no turn and was not dropped
//     for a newer one;
//   - somebody waits, all goes well, and nobody has had a turn for longer than a lease and the margins
//     of a lost reply; or a call never returns;
//   - a holder was not asked a second after a newer caller began to wait for the lock;
//   - a Locker is closed, nothing of it went astray, and it has left more than its record; or, a minute
//     after the last one was closed, the store has any hold;
//   - a goroutine is left.
//
// docs/internals/every-order.md says what was explored.
package newest
