// Package simulation shows how padlock behaves when thousands of processes use one lock server. It
// runs in a testing/synctest bubble, so minutes of the processes' time take seconds.
//
// The Lockers are real: each process is a Locker of its own. The server is a model, made of package
// memstore. It stands behind a network that takes time and may lose messages, it works on one
// request after the other, and it can stop and start again, with or without its data. The model
// counts requests, so the tests compare counts and never the time that a test took.
package simulation
