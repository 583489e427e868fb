// Package soak uses locks in many processes at the same time, and causes faults meanwhile.
// Afterwards it reports which promises were kept.
//
// Workers are separate processes. They take, hold, convert, hand over and release locks through
// package padlock, on a few hot and many warm names. A [Court] in the engine's process keeps the
// data that the locks protect. For each name these are a register that rejects smaller fences and a
// register that rejects nothing. Every call of a worker and every result becomes an [Event], with
// times by the machine's clock. After the run, [Check] examines the events.
//
// The package knows no particular store or server. The program that runs a soak defines how a
// worker opens its store and which faults there are. The package imports only the standard library
// and padlock.
package soak
