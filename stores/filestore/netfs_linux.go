package filestore

import "syscall"

// networkKinds are the file systems whose locks depend on another machine or on a user program. The
// keys are the numbers that statfs(2) returns in f_type.
var networkKinds = map[uint32]string{
	0x6969:     "nfs",
	0x517B:     "smb",
	0xFF534D42: "cifs",
	0xFE534D42: "smb2",
	0x65735546: "fuse",
	0x01021997: "9p",
	0x5346414F: "afs",
	0x00C36400: "ceph",
	0x73757245: "coda",
	0x0BD00BD0: "lustre",
	0x47504653: "gpfs",
	0x19830326: "beegfs",
	0x786F4256: "vboxsf",
	0xBACBACBC: "vmhgfs",
	0x564C:     "ncp",
}

// networkFileSystem returns the kind of network file system that dir is on, or "" for a local one.
func networkFileSystem(dir string) (string, error) {
	var st syscall.Statfs_t
	if err := syscall.Statfs(dir, &st); err != nil {
		return "", err
	}
	return networkKinds[uint32(st.Type)], nil
}
