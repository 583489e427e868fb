//go:build !linux || android || !(amd64 || arm64 || riscv64 || loong64)

package semstore

import (
	"errors"
	"time"
)

const (
	supported  = false
	flagNoWait = 0
	flagUndo   = 0

	permissions = 0
)

// Open returns errors.ErrUnsupported here, so nothing calls these functions.

func find(int32, bool) (int, error)                  { return 0, errors.ErrUnsupported }
func operate(int, time.Duration, ...operation) error { return errors.ErrUnsupported }
func value(int, int) (int, error)                    { return 0, errors.ErrUnsupported }
func waiters(int, int) (int, error)                  { return 0, errors.ErrUnsupported }
func lastPID(int, int) (int, error)                  { return 0, errors.ErrUnsupported }
func setValue(int, int, int) error                   { return errors.ErrUnsupported }
func values(int) (v [semCount]uint16, err error)     { return v, errors.ErrUnsupported }
func mode(int) (uint32, error)                       { return 0, errors.ErrUnsupported }
func remove(int) error                               { return errors.ErrUnsupported }
func threadID() int                                  { return 0 }
func nudge(int)                                      {}
func advice(error) string                            { return "" }
