package server

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
)

// builtEtcd builds etcd from its module, in the version of testdata, unless this machine has it already, and returns
// its path. The build runs outside of the workspace, because the modules of the workspace need other
// versions of the same dependencies. The server is always built without -race.
var builtEtcd = sync.OnceValues(func() (string, error) {
	_, file, _, _ := runtime.Caller(0)
	source := filepath.Join(filepath.Dir(file), "testdata", "etcd")
	sum := sha256.New()
	for _, name := range []string{"go.mod", "go.sum"} {
		text, err := os.ReadFile(filepath.Join(source, name))
		if err != nil {
			return "", err
		}
		sum.Write(text)
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(cache, "padlock-test-servers")
	path := filepath.Join(dir, "etcd-"+hex.EncodeToString(sum.Sum(nil)[:8]))
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	// Another test may build the server at the same time, so the file gets its final name only when
	// it is complete.
	part := fmt.Sprintf("%s.%d", path, os.Getpid())
	build := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-o", part, "go.etcd.io/etcd/server/v3")
	build.Dir, build.Env = source, append(os.Environ(), "GOWORK=off", "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w\n%s", err, out)
	}
	return path, os.Rename(part, path)
})
