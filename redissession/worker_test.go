package redissession_test

import "io"

func worker(addr string, in io.Reader, out io.Writer) int { return 0 }
