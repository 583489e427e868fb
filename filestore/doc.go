// Package filestore keeps locks with flock(2) in files of one directory. It
// needs no server and shares its locks with PHP (Symfony's FlockStore) and
// flock(1) on the same machine.
//
// A hold belongs to the process: the kernel frees it when the process ends,
// however it ends, so there are no leases and nothing to renew. A hold can be
// given to a child as an open file. Fences, the holder and cool-downs stand in
// the lock file and survive the process.
//
// docs/stores/file.md says what is promised, what is not, and how to live with
// PHP, network file systems, containers and cleaners of temporary files.
package filestore
