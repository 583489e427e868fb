package filestore_test

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/padlock-go/padlock/driver/fast"
	"github.com/padlock-go/padlock/stores/filestore"
)

// The records have the same access rights as the locks. A directory for all users has no records.
func TestRecordsHaveTheAccessOfTheLocks(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("Windows has access lists")
	}
	for name, c := range map[string]struct {
		opts []filestore.Option
		mode os.FileMode // 0: no records
	}{
		"private": {nil, 0o700},
		"group":   {[]filestore.Option{filestore.AllowGroup()}, 0o770},
		"world":   {[]filestore.Option{filestore.AllowWorld()}, 0},
	} {
		s, err := filestore.Open(filepath.Join(t.TempDir(), "locks"), c.opts...)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		err = s.Record(t.Context(), "job", []fast.Record{{ID: "r1", Text: "x"}})
		if c.mode == 0 {
			if !errors.Is(err, errors.ErrUnsupported) {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		info, statErr := os.Stat(filepath.Join(s.Dir(), "history"))
		if err != nil || statErr != nil || info.Mode().Perm() != c.mode {
			t.Errorf("%s: %v, %v, %v", name, err, statErr, info)
		}
		if states, err := s.List(t.Context(), ""); err != nil || len(states) > 0 {
			t.Errorf("%s: the records count as locks: %v, %v", name, states, err)
		}
	}
}
