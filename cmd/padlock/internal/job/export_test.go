//go:build unix

package job

import (
	"os"
	"time"
)

// With PATIENT=settle, leftover processes have a minute to end by themselves. The scripts of package
// command have this file in their padlock.
func init() {
	if os.Getenv("PATIENT") == "settle" {
		settleTime = time.Minute
	}
}

// Listen calls f before each signal that j sends.
func Listen(j *Job, f func(pid int)) { j.heard = f }
