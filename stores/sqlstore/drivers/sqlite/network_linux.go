package sqlite

import "syscall"

// networkKinds has the file systems whose files are on another machine, by the f_type of statfs.
var networkKinds = map[uint32]string{
	0x6969:     "nfs",
	0x517B:     "smb",
	0xFF534D42: "cifs",
	0xFE534D42: "smb2",
	0x01021997: "9p",
	0x5346414F: "afs",
	0x00C36400: "ceph",
	0x73757245: "coda",
	0x0BD00BD0: "lustre",
	0x47504653: "gpfs",
	0x19830326: "beegfs",
}

// networkKind returns the name of a directory's file system if that is a network file system, and
// "" otherwise.
func networkKind(dir string) string {
	var st syscall.Statfs_t
	if err := syscall.Statfs(dir, &st); err != nil {
		return ""
	}
	return networkKinds[uint32(st.Type)]
}
