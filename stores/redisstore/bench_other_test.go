//go:build !unix

package redisstore_test

// cpu returns 0, because the processor time of the process is not known on this system.
func cpu() float64 { return 0 }
