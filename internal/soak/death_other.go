//go:build !linux

package soak

import "os/exec"

// launch starts a worker, which ends when it finds the engine gone.
func launch(cmd *exec.Cmd) error { return cmd.Start() }
