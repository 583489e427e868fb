//go:build !amd64 && !arm64

package filestore

// sysStatx is 0 here, so that lstat is used instead, which is a little slower.
const sysStatx = 0
