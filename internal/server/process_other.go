//go:build !unix

package server

import (
	"errors"
	"syscall"
)

func attributes(*owner) *syscall.SysProcAttr { return nil }

func (p *process) stop() error { return errors.ErrUnsupported }

func (p *process) cont() error { return errors.ErrUnsupported }

func (p *process) kill() error { return p.cmd.Process.Kill() }
