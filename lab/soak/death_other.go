//go:build !linux

package soak

import "os/exec"

// launch starts a worker. The worker ends when it notices that the engine is gone.
func launch(cmd *exec.Cmd) error { return cmd.Start() }
