// Package soak uses locks as many programs at once would, while it makes faults, and reports
// afterwards which promises were kept.
//
// Workers are processes of their own. They take, hold, convert, hand over and release locks on a
// few hot and many warm names, through package padlock. A [Court] in the engine's process keeps the
// data that the locks protect: for each name a register that rejects smaller fences and one that
// rejects nothing. Every call of a worker and every result becomes an [Event] on one clock, that of
// the machine. When the run is over, [Check] reads the events.
//
// The package knows no store and no server. The program that runs a soak says how a worker opens
// its store and which faults there are. The package imports the standard library and padlock only.
package soak
