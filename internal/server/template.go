package server

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// fromTemplate fills the directory "data" of a place with a copy of what first once made there for
// the same binary and arguments. A database takes seconds of processor to make its first files, and
// a copy takes a tenth of one. All copies have one identifier of the database system.
func fromTemplate(ctx context.Context, p Place, args []string, first func() error) error {
	binary, err := filepath.EvalSymlinks(p.Binary)
	if err != nil {
		return err
	}
	info, err := os.Stat(binary)
	if err != nil {
		return err
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return first() // such as without $HOME
	}
	key := sha256.Sum256(fmt.Appendln(nil, binary, info.Size(), info.ModTime().UnixNano(), os.Geteuid(), args))
	dir := filepath.Join(cache, "padlock-test-servers")
	template := filepath.Join(dir, filepath.Base(binary)+"-"+hex.EncodeToString(key[:8]))
	if _, err := os.Stat(template); err == nil {
		return copyTree(ctx, template, p.Path("data"))
	}
	if err := errors.Join(first(), os.MkdirAll(dir, 0o755)); err != nil {
		return err
	}
	// Another test may do the same at this moment, so the copy gets its name only when it is whole.
	part, err := os.MkdirTemp(dir, "part-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(part)
	if err := copyTree(ctx, p.Path("data"), part); err != nil {
		return err
	}
	_ = os.Rename(filepath.Join(part, "data"), template) // if the other one was first, its copy stays
	return nil
}

// copyTree copies a directory with the owners and rights of its files.
func copyTree(ctx context.Context, from, to string) error {
	if out, err := exec.CommandContext(ctx, "cp", "-a", from, to).CombinedOutput(); err != nil {
		return fmt.Errorf("cp: %w: %s", err, strings.TrimSpace(string(out)))
	}
	return nil
}
