package filestore

// sysStatx is the number of statx(2), which package syscall lacks.
const sysStatx = 291
