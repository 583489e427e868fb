package padlockhttp

import (
	"bufio"
	"io"
	"net"
	"net/http"
)

// answer notes whether a handler has begun its answer. Like every ResponseWriter, it is used by one
// goroutine at a time.
type answer struct {
	http.ResponseWriter
	begun bool
}

// Unwrap lets http.ResponseController find the ResponseWriter inside.
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// WriteHeader begins the answer, unless the code is that of an interim answer.
func (a *answer) WriteHeader(code int) {
	a.begun = a.begun || !interim(code)
	a.ResponseWriter.WriteHeader(code)
}

func (a *answer) Write(p []byte) (int, error) {
	a.begun = true
	return a.ResponseWriter.Write(p)
}

// ReadFrom lets the kernel copy files.
func (a *answer) ReadFrom(r io.Reader) (int64, error) {
	a.begun = true
	return io.Copy(a.ResponseWriter, r)
}

// FlushError begins the answer.
func (a *answer) FlushError() error {
	a.begun = true
	return http.NewResponseController(a.ResponseWriter).Flush()
}

// Flush is for handlers that ask for an http.Flusher.
func (a *answer) Flush() { _ = a.FlushError() }

// Hijack is for handlers that ask for an http.Hijacker.
func (a *answer) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, rw, err := http.NewResponseController(a.ResponseWriter).Hijack()
	a.begun = a.begun || err == nil
	return conn, rw, err
}

// interim reports whether an answer follows after one with this code.
func interim(code int) bool {
	return code >= 100 && code < 200 && code != http.StatusSwitchingProtocols
}
