//go:build !linux

package filestore

import "time"

// hasList is false because this system has no list of its locks.
const hasList = false

// calibration has no use here, because this system has no list of locks.
type calibration struct{ patience time.Duration }

func (*calibration) locksOf(string, *conn) ([]kernelLock, bool, error) { return nil, false, errNoList }

func (*calibration) ownLocks(string, *conn) (int, error) { return 0, errNoList }

func (*calibration) list(string, uint64) (map[uint64][]kernelLock, bool, error) {
	return nil, false, errNoList
}

func (*calibration) descriptorHolders(*conn) []int { return nil }

func (kernelLock) ended() bool { return false }

func (kernelLock) numberedAs(uint64) bool { return false }

func (c *conn) showsLock() (bool, error) { return false, errCannotKnow }
