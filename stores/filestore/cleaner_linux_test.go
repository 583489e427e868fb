package filestore

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/server"
)

// The timer that cleans temporary files removes lock files that are in use. A second holder gets in,
// and the first one learns of it with its next call. Nobody watches a key.
func TestCleanerOfTemporaryFiles(t *testing.T) {
	t.Parallel()
	server.Needs(t, "systemd-tmpfiles")
	for _, options := range [][]Option{nil, {AllowWorld()}} {
		s := open(t, filepath.Join(t.TempDir(), "locks"), options...)
		other := open(t, s.Dir(), options...)
		key := request("key", "us")
		key.Detached = true
		take(t, s, request("job", "us"))
		take(t, s, key)
		old := time.Unix(1e9, 0)
		for _, name := range []string{"job", "key"} {
			if err := os.Chtimes(pathOf(s, name), old, old); err != nil {
				t.Fatal(err)
			}
		}
		rule := filepath.Join(t.TempDir(), "rule.conf")
		// "am" stands for the times that a test can set.
		if err := os.WriteFile(rule, []byte("d "+s.Dir()+" - - - am:10d\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if out, err := exec.Command("systemd-tmpfiles", "--clean", rule).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		lost(t, s, "job", "us")
		if _, err := s.Extend(patience(t), "key", "us", time.Minute); !errors.Is(err, driver.ErrLost) {
			t.Errorf("Extend of the key: %v, want ErrLost", err)
		}
		for _, name := range []string{"job", "key"} {
			take(t, other, request(name, "them"))
		}
	}
}
