package filestore

// sysStatx is the system call number of statx(2), which package syscall lacks.
const sysStatx = 332
