// Package soak works with locks as many programs at once would, while faults
// are made, and says afterwards which promises were kept.
//
// Workers, each a process of its own, take, hold, convert, hand over and give
// back locks on a few hot and many warm names, through package padlock. A
// [Court] in the engine's process keeps what the locks are for: per name a
// register that rejects smaller fences and one that rejects nothing. Everything
// that a worker did and was told becomes an [Event] on one clock, that of the
// machine. [Check] reads the events when all is over.
//
// The package knows no store and no server: who runs it says how a worker
// opens its store and which faults can be made. It imports the standard
// library and padlock only.
package soak
