//go:build !linux

package filestore

func (*conn) markQueued(bool) {}

func (*conn) markPolling() {}

func (*conn) unmark() {}

func (*conn) othersQueue(bool) bool { return false }

func (*conn) readersQueue() bool { return false }

func (*conn) countMarks() int { return -1 }
