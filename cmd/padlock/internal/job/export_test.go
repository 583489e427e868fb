//go:build unix

package job

// Listen calls f before each signal that j sends.
func Listen(j *Job, f func(pid int)) { j.heard = f }
