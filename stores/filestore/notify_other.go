//go:build !linux

package filestore

// notifier does nothing. On this system, waiters of other processes poll.
type notifier struct{}

type fileWatch struct{}

func (*notifier) watch(*file, *conn) bool { return false }

func (*notifier) watches(*file) bool { return true }

func (*notifier) unwatch(*file) {}

func (*notifier) close() {}

func markWaited(*conn) bool { return false }

func wakeOthers(*conn) {}
