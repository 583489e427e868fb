package server

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
)

// BuildPadlock builds padlock-all of this tree in the directory, and returns its path.
func BuildPadlock(dir string) (string, error) {
	_, file, _, _ := runtime.Caller(0)
	binary := filepath.Join(dir, "padlock")
	build := exec.Command("go", "build", "-buildvcs=false", "-o", binary, ".")
	build.Dir = filepath.Join(filepath.Dir(file), "../../cmd/padlock/padlock-all") // a module of its own
	if out, err := build.CombinedOutput(); err != nil {
		return binary, fmt.Errorf("building padlock-all: %w\n%s", err, out)
	}
	return binary, nil
}

// Padlock starts "padlock serve --api" on a store. The binary is that of BuildPadlock. The server
// is ready even if it cannot reach its store. It gets further flags.
func Padlock(t testing.TB, binary, storeURL string, flags ...string) *Server {
	t.Helper()
	at := func(p Place) string { return "http://" + p.Addr() }
	return Start(t, Spec{
		Name: "padlock serve", Binary: []string{binary}, Env: []string{"PADLOCK_STORE=" + storeURL}, URL: at,
		Args: func(p Place) []string {
			return append([]string{"serve", "--json", "--api", "--listen", p.Addr()}, flags...)
		},
		Ready: func(ctx context.Context, p Place) error {
			_, _, err := health(ctx, at(p)+"/healthz", nil)
			return err
		},
	})
}
