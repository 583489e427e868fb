//go:build darwin || freebsd

package filestore

import "syscall"

// networkFileSystem returns the kind of network file system that dir is on, or "" for a local one.
func networkFileSystem(dir string) (string, error) {
	const local = 0x1000 // MNT_LOCAL
	var st syscall.Statfs_t
	if err := syscall.Statfs(dir, &st); err != nil {
		return "", err
	}
	if uint64(st.Flags)&local != 0 {
		return "", nil
	}
	kind := make([]byte, 0, len(st.Fstypename))
	for _, c := range st.Fstypename {
		if c == 0 {
			break
		}
		kind = append(kind, byte(c))
	}
	return string(kind), nil
}
