//go:build !linux || mips || mipsle || mips64 || mips64le

package filestore

// hasKernelQueue is false: on this system, the store cannot end a system call that waits for a lock.
// So waiters poll.
const hasKernelQueue = false

type blocked struct{ over chan struct{} }

func mayBlock() *blocked { return nil }

func (*blocked) lock(*conn, bool) error { return nil }

func (*blocked) leave(error) {}
