//go:build !unix

package session_test

import "time"

// maxGrowth is how much longer eight times the keys may take on a machine that is busy with other
// processes, too.
const maxGrowth = 32

var started = time.Now()

// cpuTime returns the time since the start, because this system has no portable way to ask how long
// a process has had a processor.
func cpuTime() time.Duration { return time.Since(started) }
