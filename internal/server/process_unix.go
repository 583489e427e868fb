//go:build unix && !linux

package server

import "syscall"

// attributes puts the server into its own process group. This system has no parent-death signal, so
// if the test is killed, its server keeps running.
func attributes(o *owner) *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{Setpgid: true}
	if o != nil {
		attr.Credential = &syscall.Credential{Uid: o.uid, Gid: o.gid}
	}
	return attr
}

func (p *process) stop() error { return p.signalGroup(syscall.SIGSTOP) }

func (p *process) cont() error { return p.signalGroup(syscall.SIGCONT) }

func (p *process) kill() error { return p.signalGroup(syscall.SIGKILL) }

func (p *process) signalGroup(sig syscall.Signal) error {
	return syscall.Kill(-p.cmd.Process.Pid, sig)
}
