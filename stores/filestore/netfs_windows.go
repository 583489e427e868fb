package filestore

import (
	"path/filepath"
	"strings"
	"syscall"
	"unsafe"
)

var getDriveType = kernel32.NewProc("GetDriveTypeW")

// networkFileSystem returns the kind of network file system that dir is on, or "" for a local one.
func networkFileSystem(dir string) (string, error) {
	const remote = 4 // DRIVE_REMOTE
	volume := filepath.VolumeName(dir)
	if strings.HasPrefix(volume, `\\`) {
		return "a network share", nil
	}
	root, err := syscall.UTF16PtrFromString(volume + `\`)
	if err != nil {
		return "", err
	}
	if kind, _, _ := getDriveType.Call(uintptr(unsafe.Pointer(root))); kind == remote {
		return "a network drive", nil
	}
	return "", nil
}
