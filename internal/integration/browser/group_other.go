//go:build !linux

package browser

import "os/exec"

func ownGroup(*exec.Cmd) {}

func endGroup(cmd *exec.Cmd) { cmd.Process.Kill() }
