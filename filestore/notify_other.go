//go:build !linux

package filestore

// notifier does nothing: waiters of other processes poll on this system.
type notifier struct{}

type watched struct{}

func (*notifier) watch(*file, *conn) bool { return false }

func (*notifier) watches(*file) bool { return true }

func (*notifier) unwatch(*file) {}

func (*notifier) close() {}

func leaveWord(*conn) bool { return false }

func wakeOthers(*conn) {}
