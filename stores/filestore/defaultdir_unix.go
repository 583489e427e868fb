//go:build unix && !darwin

package filestore

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

func defaultDir() (string, error) {
	uid := os.Geteuid()
	if uid == 0 {
		return rootDir, nil
	}
	home, err := homeOf(uid, "/etc/passwd", "/usr/bin/getent")
	if err != nil {
		return "", err
	}
	return stateDir(home)
}

// homeOf returns the home directory of a user. It reads the passwd file first. If the user is not
// there, it runs getent, which also knows the users of a directory service. Package os/user cannot
// be used, because without cgo that package relies on HOME and USER.
func homeOf(uid int, passwd, getent string) (string, error) {
	if file, err := os.Open(passwd); err == nil {
		defer file.Close()
		if home, ok := homeIn(file, uid); ok {
			return home, nil
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, getent, "passwd", strconv.Itoa(uid))
	cmd.Env = []string{"PATH=/usr/bin:/bin"}
	out, err := cmd.Output()
	if home, ok := homeIn(bytes.NewReader(out), uid); ok && err == nil {
		return home, nil
	}
	return "", errNoHome
}

// homeIn finds the home directory of a user in lines of the form
// name:password:uid:gid:comment:home:shell.
func homeIn(r io.Reader, uid int) (string, bool) {
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		field := strings.Split(lines.Text(), ":")
		if len(field) >= 6 && field[2] == strconv.Itoa(uid) {
			return field[5], true
		}
	}
	return "", false
}
