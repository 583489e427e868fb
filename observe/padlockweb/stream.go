package padlockweb

import (
	"context"
	"errors"
	"html/template"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/padlock-go/padlock/internal/remote"
	"github.com/padlock-go/padlock/observe/sampler"
)

const (
	eventPatience = 10 * time.Second // how long a slow reader may take for an event
	heartbeat     = 2 * time.Second  // a stream sends something at least this often, see beat
)

// stream sends server-sent events. The event "locks" contains the part of the page that changes,
// and is sent whenever this part has changed. The event "beat" says that nothing has changed;
// without it, the page could not tell that from a server that hangs. If the store hangs, the data
// of a beat say for how many seconds. The event "bye" says that the
// visitor must open a new stream. A stream ends when the Handler is closed, when the visitor loses
// the right to read, or when the reader is too slow.
func (w *Web) stream(rw http.ResponseWriter, r *http.Request, v *visitor) {
	values := r.URL.Query()
	kind := values.Get("view")
	if kind != "name" && kind != "jobs" {
		kind = "table"
	}
	q := newQuery(kind, values)
	if kind == "name" && !v.canSee(q.name) {
		plain(rw, http.StatusNotFound, "there is no lock of this name that you may see")
		return
	}
	client := remote.Address(r.RemoteAddr)
	if v.known() {
		client = "token " + v.token.name
	}
	free, ok := w.places.takePlace(client)
	if !ok {
		rw.Header().Set("Retry-After", "15")
		plain(rw, http.StatusServiceUnavailable, "too many pages are live; this one shows changes when it is reloaded")
		return
	}
	defer free()
	s := &stream{w: rw, control: http.NewResponseController(rw)}
	rw.Header().Set("Content-Type", "text/event-stream")
	rw.Header().Set("X-Accel-Buffering", "no") // nginx would hold events back
	if r.Method == http.MethodHead {
		return // the answer to HEAD has no body
	}
	w.followSampler(r, v, q, s)
}

// followSampler sends events until the stream has to end.
func (w *Web) followSampler(r *http.Request, v *visitor, q query, s *stream) {
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	stop := context.AfterFunc(w.closing, cancel)
	defer stop()
	var last template.HTML
	snap := w.snapshot(ctx)
	for {
		if !w.stillReads(r, v) {
			w.refused(r, v.token.name, "the right to read has ended")
			_ = s.sendEvent("bye", "")
			return
		}
		body := w.fragment(ctx, snap, v, q)
		var err error
		if body == last {
			err = s.beat(time.Now(), snap)
		} else {
			last = body
			err = s.sendEvent("locks", body)
		}
		if err != nil {
			return
		}
		if snap = w.nextSnapshot(ctx, snap); snap == nil {
			if w.closing.Err() != nil {
				_ = s.sendEvent("bye", "")
			}
			return
		}
	}
}

// nextSnapshot waits for the next snapshot, but no longer than a heartbeat. It returns nil if ctx
// has ended.
func (w *Web) nextSnapshot(ctx context.Context, snap *sampler.Snapshot) *sampler.Snapshot {
	bounded, cancel := context.WithTimeout(ctx, heartbeat)
	defer cancel()
	following, err := w.sampler.Next(bounded, snap.Number)
	switch {
	case err == nil:
		return following
	case ctx.Err() != nil:
		return nil
	case errors.Is(err, context.DeadlineExceeded):
		return snap
	}
	return nil
}

// stillReads reports whether the visitor is still who it was when the stream began, with the same
// right. Otherwise the stream ends, and the browser opens a new one.
func (w *Web) stillReads(r *http.Request, v *visitor) bool { return *w.visitor(r) == *v }

// stream writes server-sent events.
type stream struct {
	w       http.ResponseWriter
	control *http.ResponseController
	sent    time.Time // when something was last sent
}

// sendEvent sends an event. Its data may have several lines.
func (s *stream) sendEvent(event string, data template.HTML) error {
	return s.flush("event: " + event + "\ndata: " + strings.ReplaceAll(string(data), "\n", "\ndata: ") + "\n\n")
}

// beat sends an event if nothing was sent for a while. If the reader has gone, sending fails, and
// the stream ends.
func (s *stream) beat(at time.Time, snap *sampler.Snapshot) error {
	if at.Sub(s.sent) < heartbeat {
		return nil
	}
	return s.sendEvent("beat", template.HTML(silentFor(snap, at)))
}

// silentAfter is how long after a sample is due the store counts as silent. The sampler itself is
// more patient.
const silentAfter = 3 * time.Second

// silentFor returns for how many seconds the store has not answered, or "" if it does, or if the
// page already says that it does not.
func silentFor(snap *sampler.Snapshot, at time.Time) string {
	silent := at.Sub(snap.Tried)
	if snap.Tried.IsZero() || snap.Err != nil || silent < snap.Cost.Interval+silentAfter {
		return ""
	}
	return strconv.Itoa(int(silent / time.Second))
}

// flush sends text, with a deadline for slow readers.
func (s *stream) flush(text string) error {
	s.sent = time.Now()
	_ = s.control.SetWriteDeadline(s.sent.Add(eventPatience)) // a ResponseWriter of a test has no deadlines
	if _, err := io.WriteString(s.w, text); err != nil {
		return err
	}
	err := s.control.Flush()
	_ = s.control.SetWriteDeadline(time.Time{}) // HTTP/2 would end the stream at the deadline
	return err
}
