//go:build !linux || mips || mipsle || mips64 || mips64le

package filestore

import "sync/atomic"

// hasKernelQueue is false: on this system, the store cannot end a system call that waits for a
// lock. So waiters poll.
const hasKernelQueue = false

var threadSought atomic.Int64

type blocked struct{ over chan error }

func noThread() bool { return true }

func block(*conn, bool) *blocked { return nil }

func (*blocked) leave(*conn) {}
