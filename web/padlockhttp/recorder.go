package padlockhttp

import (
	"bufio"
	"bytes"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
)

// A recorder holds an answer back until it is kept. An answer that the handler flushes, or that is
// longer than max, goes to the client at once. Like every ResponseWriter, it is used by one
// goroutine at a time.
type recorder struct {
	http.ResponseWriter
	max      int
	before   http.Header // a copy of the header, made before the handler ran
	header   http.Header // the header when the handler began its answer
	status   int         // 0: the handler has not begun its answer
	body     bytes.Buffer
	tooLarge bool
	sent     bool // the answer goes to the client at once
	cut      bool // the answer was sent while the handler was at work, and may have ended early
	hijacked bool
}

const cookies = "Set-Cookie"

func newRecorder(w http.ResponseWriter, max int) *recorder {
	return &recorder{ResponseWriter: w, max: max, before: w.Header().Clone()}
}

// Unwrap lets http.ResponseController find the ResponseWriter inside, for its deadlines.
func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }

// WriteHeader notes the status and the header.
func (r *recorder) WriteHeader(code int) {
	switch {
	case interim(code):
		r.ResponseWriter.WriteHeader(code)
	case r.status == 0:
		r.status = code
		r.header = r.Header().Clone()
	}
}

func (r *recorder) Write(p []byte) (int, error) {
	r.begin()
	if !r.tooLarge && r.body.Len()+len(p) > r.max {
		r.send()
		r.tooLarge = true
		r.body = bytes.Buffer{}
	}
	if !r.tooLarge {
		r.body.Write(p)
	}
	if r.sent {
		return r.ResponseWriter.Write(p)
	}
	return len(p), nil
}

// ReadFrom hides the method of the ResponseWriter inside, which would not record.
func (r *recorder) ReadFrom(from io.Reader) (int64, error) {
	return io.Copy(struct{ io.Writer }{r}, from)
}

// FlushError sends what the handler has written so far, and from now on everything at once.
func (r *recorder) FlushError() error {
	r.begin()
	r.send()
	return http.NewResponseController(r.ResponseWriter).Flush()
}

// Flush is for handlers that ask for an http.Flusher.
func (r *recorder) Flush() { _ = r.FlushError() }

// Hijack is for handlers that ask for an http.Hijacker. Their answers are not kept.
func (r *recorder) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, rw, err := http.NewResponseController(r.ResponseWriter).Hijack()
	if err == nil {
		r.hijacked, r.sent, r.status = true, true, http.StatusSwitchingProtocols
	}
	return conn, rw, err
}

// begin makes sure that the answer has begun.
func (r *recorder) begin() {
	if r.status == 0 {
		r.WriteHeader(http.StatusOK)
	}
}

// send sends what was held back. Only the first call has an effect.
func (r *recorder) send() {
	if r.sent || r.status == 0 {
		return
	}
	r.sent = true
	h := r.Header()
	clear(h) // without changes that the handler made after it had begun the answer
	maps.Copy(h, r.header)
	r.ResponseWriter.WriteHeader(r.status)
	_, _ = r.ResponseWriter.Write(r.body.Bytes())
}

// drop makes send do nothing, and makes the header what it was before the handler ran.
func (r *recorder) drop() {
	r.sent = true
	h := r.Header()
	clear(h)
	maps.Copy(h, r.before)
}

// kept returns the answer with the headers that the handler has set, but without trailers.
func (r *recorder) kept(print prints) *kept {
	k := &kept{Version: keptVersion, Print: print.body, Form: print.form, Status: r.status, Header: http.Header{}}
	if r.tooLarge || r.cut {
		k.Gone = true
		return k
	}
	for name, values := range r.header {
		if !slices.Equal(values, r.before[name]) && name != "Trailer" && !strings.HasPrefix(name, http.TrailerPrefix) {
			k.Header[name] = values
		}
	}
	// Cookies are added, as a rule. Those of the layers outside belong to the first request alone.
	if set, outer := r.header[cookies], r.before[cookies]; len(set) > len(outer) && slices.Equal(set[:len(outer)], outer) {
		k.Header[cookies] = set[len(outer):]
	}
	k.Body = r.body.Bytes()
	return k
}
