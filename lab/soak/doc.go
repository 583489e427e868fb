// Package soak uses locks in many processes at the same time, and causes faults meanwhile.
// Afterwards it reports which promises were kept.
//
// Workers are separate processes. They take, hold, convert, hand over and release locks through
// package padlock, on a few hot and many warm names. A [Monitor] in the engine's process keeps the
// data that the locks protect: two registers for each name. One rejects writes with a smaller fence
// than it has seen, and the other rejects nothing. Every call of a worker and every result becomes
// an [Event], with times by the machine's clock. After the run, [Check] examines the events.
//
// The time in which a holder may work, by its own clock, is called its window.
//
// The package knows no particular store or server. The program that runs a soak defines how a
// worker opens its store and which faults there are. The package imports only the standard library,
// padlock, and internal/server, which starts the processes.
package soak
