//go:build !linux

package filestore

func newMark(bool) int64 { return 0 }

func (*conn) mark(int64) {}

func (*conn) unmark() {}

func (*conn) othersWait(bool) bool { return false }

func (*conn) countMarks() int { return -1 }
