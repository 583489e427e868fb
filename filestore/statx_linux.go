//go:build !amd64 && !arm64

package filestore

// sysStatx is 0: lstat does, a little slower.
const sysStatx = 0
