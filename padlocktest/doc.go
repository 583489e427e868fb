// Package padlocktest helps to test programs that take locks: a Locker in
// memory whose locks can be lost, held by somebody else or unanswered, as the
// test says, and a clock that the test moves.
package padlocktest
