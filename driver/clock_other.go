//go:build !linux

package driver

import "time"

var processStart = time.Now()

func machineClock() Clock { return goClock{processStart} }
