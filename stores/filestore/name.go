package filestore

import (
	"crypto/sha256"
	"encoding/base64"
	"strings"
)

// maxReadable is how many bytes of a lock's name are readable in the name of its file.
const maxReadable = 50

const (
	namePrefix       = "sf."
	lockSuffix       = ".lock"
	recordLockSuffix = ".gate"
)

// fileName returns the name of the lock file for a lock's name, as Symfony's FlockStore builds it.
// The file's name is sf.A.B.lock:
//
//   - A is made from the lock's name. Each run of bytes outside [A-Za-z0-9._-] is replaced by one
//     "-". Only the first 50 bytes of the result are kept.
//   - B is made from the SHA-256 of the lock's name. It is the first seven characters of the hash
//     in base64, with "_" in place of "/".
//
// So the file's name contains no slash. Two locks share a file only if their A and their B are the
// same. B stands for 42 bits of the hash.
func fileName(name string) string {
	sum := sha256.Sum256([]byte(name))
	hash := base64.StdEncoding.EncodeToString(sum[:6])[:7]
	return namePrefix + readable(name) + "." + strings.ReplaceAll(hash, "/", "_") + lockSuffix
}

// readable returns the part of a lock file's name that a person can read. In the comment of
// fileName, this is the part A.
func readable(name string) string {
	var out [maxReadable]byte
	n, inRun := 0, false
	for i := 0; i < len(name) && n < maxReadable; i++ {
		if plain(name[i]) {
			out[n], inRun = name[i], false
			n++
		} else if !inRun {
			out[n], inRun = '-', true
			n++
		}
	}
	return string(out[:n])
}

func plain(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' ||
		c == '.' || c == '_' || c == '-'
}

// nameOf returns the name of the lock that is kept in the given file. It uses only the file's name,
// and is for a file without a record. It returns "" if the file's name does not show the whole name
// of the lock (see fileName).
func nameOf(file string) string {
	if a, ok := readablePart(file); ok && fileName(a) == file {
		return a
	}
	return ""
}

// readablePart returns the part A of a lock file's name (see fileName). If the file is not a lock
// file, ok is false.
func readablePart(file string) (a string, ok bool) {
	rest, ok1 := strings.CutPrefix(file, namePrefix)
	rest, ok2 := strings.CutSuffix(rest, lockSuffix)
	const tail = len(".") + 7
	if !ok1 || !ok2 || len(rest) < tail || rest[len(rest)-tail] != '.' {
		return "", false
	}
	return rest[:len(rest)-tail], true
}

// recordLockPath returns the path of the record lock, which is a second lock file; see
// lockRecord.
func recordLockPath(lockPath string) string {
	return strings.TrimSuffix(lockPath, lockSuffix) + recordLockSuffix
}
