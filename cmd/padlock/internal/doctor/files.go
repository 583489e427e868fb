package doctor

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/padlock-go/padlock/cmd/padlock/internal/texts"
)

// files is the interface to the file system. The checks of a directory use it, and tests replace
// it.
type files interface {
	// Lstat is os.Lstat.
	Lstat(path string) (fs.FileInfo, error)
	// Readlink is os.Readlink.
	Readlink(path string) (string, error)
	// On describes the file system that contains path. It returns the kind of that file system,
	// such as "ext4", and its free space. If the kind is not known, it returns "" as the kind.
	On(path string) (kind string, left space)
}

// space is the free space of a file system. -1 means unknown.
type space struct {
	bytes, files int64
	readOnly     bool
}

// systemFiles asks the system.
type systemFiles struct{}

func (systemFiles) Lstat(path string) (fs.FileInfo, error) { return os.Lstat(path) }
func (systemFiles) Readlink(path string) (string, error)   { return os.Readlink(path) }

// directory checks the directory of lock files. It reports whether the directory exists.
func (v *visit) directory(sys files) bool {
	dir := filepath.Clean(filepath.FromSlash(v.u.Path))
	v.links(sys, dir)
	v.cleaners(dir)
	if !v.exists(sys) {
		return false
	}
	v.fileSystem(sys, dir)
	return true
}

// exists reports whether the directory exists. Opening the store would create it.
func (v *visit) exists(sys files) bool {
	dir := filepath.Clean(filepath.FromSlash(v.u.Path))
	_, err := sys.Lstat(dir)
	if err != nil {
		v.problem("directory", dir+": "+texts.PathReason(err), "the first lock would make it, so nobody would notice a misspelt name, and two programs would not exclude each other",
			"make it with mkdir -m 700, or correct the URL")
	}
	return err == nil
}

// links looks for symbolic links in the path, because deployments often change them.
func (v *visit) links(sys files, dir string) {
	volume := filepath.VolumeName(dir)
	at := volume + string(filepath.Separator)
	for _, part := range strings.Split(strings.TrimPrefix(dir[len(volume):], string(filepath.Separator)), string(filepath.Separator)) {
		at = filepath.Join(at, part)
		st, err := sys.Lstat(at)
		if err != nil {
			return
		}
		if st.Mode()&fs.ModeSymlink == 0 || systemLink(at) {
			continue
		}
		to, err := sys.Readlink(at)
		if err != nil {
			to = unknownValue
		}
		v.problem("path", fmt.Sprintf("%s is a symbolic link to %s", at, to),
			"when it is changed, as deployments do, processes from before and after keep their locks in two directories",
			"name a directory by a path without links that never changes")
		return
	}
	v.good("path", "no symbolic link on the way to "+dir)
}

// systemLink reports whether a link belongs to the system and never changes.
func systemLink(path string) bool {
	return filepath.Dir(path) == string(filepath.Separator) || path == "/var/run" || path == "/var/lock"
}

// cleaned lists directories that are unsafe for lock files, because other programs delete files in
// them. Each entry names these programs. Some of the programs delete only old files. Others delete
// all files at a logout or a boot.
var cleaned = []struct{ dir, programs string }{
	{"/tmp", "systemd-tmpfiles, tmpreaper or a boot"},
	{"/var/tmp", "systemd-tmpfiles or tmpreaper"},
	{"/private/tmp", "the system's daily clean-up"},
	{"/private/var/folders", "the system's daily clean-up"},
	{"/dev/shm", "a boot"},
	{"/run/user", "the user's last logout"},
}

func (v *visit) cleaners(dir string) {
	for _, c := range cleaned {
		if dir == c.dir || strings.HasPrefix(dir, c.dir+"/") {
			v.problem("cleaners", fmt.Sprintf("%s is below %s, which is cleaned by %s", dir, c.dir, c.programs),
				"a lock file that is removed while it is held frees the name, and then two have the same lock",
				"use a directory such as /var/lib/NAME, or .local/state in a home")
			return
		}
	}
	v.good("cleaners", "not below a directory for temporary files")
}

// network lists the kinds of file systems whose locks are managed by another machine or by a
// program.
var network = []string{"nfs", "smb", "cifs", "smb2", "fuse", "9p", "afs", "ceph", "coda", "lustre", "gpfs", "beegfs", "vboxsf", "vmhgfs", "ncp"}

func (v *visit) fileSystem(sys files, dir string) {
	kind, left := sys.On(dir)
	const do = "use a directory on a local disk, or a server (redis://…)"
	switch {
	case kind == "":
		v.unknown("file-system", "the kind of file system is unknown", "locks on a network file system may not hold", "make sure that "+dir+" is on a local disk")
	case slices.Contains(network, kind):
		v.problem("file-system", kind, "other machines may not see a lock, and a broken connection can free it without notice", do)
	case kind == "overlay":
		v.problem("file-system", "overlay: the layer of this container alone", "other containers do not see these locks, not even the next one of this service, which an update starts before the old one ends",
			"mount a directory of the machine into all of them, or use a server (redis://…)")
	case kind == "tmpfs" || kind == "ramfs":
		v.problem("file-system", kind+": in memory", "a reboot forgets cool-downs, and each container or user session may have its own file system here", do)
	default:
		v.good("file-system", kind)
	}
	v.room(left)
}

// room checks the free space for lock files. A lock file needs a few hundred bytes.
func (v *visit) room(left space) {
	switch {
	case left.readOnly:
		v.problem("room", "the file system is read-only", "no lock can be taken", "mount it writable, or choose another directory")
	case left.bytes >= 0 && left.bytes < 1<<20 || left.files == 0:
		v.problem("room", fmt.Sprintf("%d bytes and %d files are left", left.bytes, left.files), "on a full disk no lock on a new name can be taken", "free some space, or choose another directory")
	case left.bytes < 0:
		v.unknown("room", "the free space is unknown", "on a full disk no lock on a new name can be taken", "make sure that there is free space")
	default:
		v.good("room", fmt.Sprintf("%d MB are left", left.bytes>>20))
	}
}
