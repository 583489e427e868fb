//go:build !unix

package redisstore_test

// cpu is not known here.
func cpu() float64 { return 0 }
