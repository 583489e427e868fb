//go:build !linux && !darwin && !freebsd

package command

import "syscall"

// This type does nothing: on this system padlock does not handle the terminal. The command runs in
// the same process group as padlock.
type terminal struct{}

func findTerminal() *terminal { return nil }

func (*terminal) interactive() bool       { return false }
func (*terminal) giveForeground(int) bool { return false }
func (*terminal) takeBack() bool          { return false }
func (*terminal) stopSelf()               {}

func interruptGroup() {}

func wantsTerminal(syscall.Signal) bool { return false }
func byTerminal(syscall.Signal) bool    { return false }

func atTerminal() bool { return false }
