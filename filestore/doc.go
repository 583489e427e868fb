// Package filestore keeps locks with flock(2) in the files of one directory. It needs no server and
// shares its locks with PHP (Symfony's FlockStore) and flock(1) on the same machine.
//
// A hold belongs to the process: the kernel frees it when the process ends, however it ends. So
// there are no leases, and nothing is renewed. A hold can be given to a child as an open file.
// Fences, the holder and cool-downs are written into the lock file and survive the process.
//
// The page docs/stores/file.md lists what is promised and what is not, and what to do with PHP,
// network file systems, containers, full disks and cleaners of temporary files.
package filestore
