package server

import (
	"os"
	"syscall"
)

// WriteProgram writes a file that the test will execute. No other goroutine can fork meanwhile: a
// child that inherits the open file would make execve fail with ETXTBSY ("text file busy").
func WriteProgram(path string, text []byte) error {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	return os.WriteFile(path, text, 0o700)
}
