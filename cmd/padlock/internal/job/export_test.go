//go:build unix

package job

// Listen has f hear of all signals that j sends. It is called before they are.
func Listen(j *Job, f func(pid int)) { j.heard = f }
