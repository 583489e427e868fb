//go:build unix

package stampede_test

import (
	"os"
	"os/exec"
	"testing"
)

// TestFilePermissionsUnderUmask runs TestFilePermissions under other umasks, in processes of their
// own, because a umask applies to a whole process.
func TestFilePermissionsUnderUmask(t *testing.T) {
	for _, mask := range []string{"077", "002"} {
		cmd := exec.Command("sh", "-c", `umask "$1" && exec "$2" -test.run='^TestFilePermissions$'`, "sh", mask, os.Args[0])
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("umask %s: %v: %s", mask, err, out)
		}
	}
}
