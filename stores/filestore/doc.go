// Package filestore keeps locks with flock(2) in the files of one directory. It needs no server and
// shares its locks with PHP (Symfony's FlockStore) and flock(1) on the same machine.
//
// Use it for the processes of one machine. For several machines, use a store on a server instead,
// such as package redisstore or sqlstore: on a network file system, flock(2) may not hold.
//
// A hold belongs to the process: when the process ends for any reason, the kernel frees the hold.
// So the hold needs no lease, and nothing is renewed. A process that is stopped keeps its hold.
// Only a detached hold has a lease, because it belongs to no process. A hold can be given to a
// child process as an open file. Fences, the holder and cool-downs are written into the lock file
// and survive the process.
//
// The page docs/stores/file.md lists what filestore promises and what it does not. It also says
// what to do about PHP, network file systems, containers, full disks and programs that clean up
// temporary files.
//
// It is a core store: see docs/which-store.md, "Core stores and guests".
package filestore
