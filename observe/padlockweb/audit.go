package padlockweb

import (
	"log/slog"
	"net/http"
	"sync"
)

// refused writes a record for a request that was not allowed.
func (w *Web) refused(r *http.Request, token, reason string, more ...slog.Attr) {
	w.audit(r, slog.LevelWarn, "refused", token, append([]slog.Attr{slog.String("why", reason)}, more...)...)
}

// audit writes a record about a request. Anybody can cause records of refused requests, so the
// number of these records is limited.
func (w *Web) audit(r *http.Request, level slog.Level, event, token string, more ...slog.Attr) {
	attrs := []slog.Attr{
		slog.String("token", token), slog.String("from", clientAddress(r.RemoteAddr)),
		slog.String("method", r.Method), slog.String("path", r.URL.Path),
	}
	if level == slog.LevelWarn {
		ok, left := w.records.nextRecord(timeNow().Unix())
		if !ok {
			return
		}
		if left > 0 {
			attrs = append(attrs, slog.Int("left_out", left))
		}
	}
	w.logger.LogAttrs(r.Context(), level, event, append(attrs, more...)...)
}

// recordLimit limits how many refused requests are written to the audit log: perSecond in each
// second. It is safe for concurrent use.
type recordLimit struct {
	mu      sync.Mutex
	at      int64 // a time in seconds
	written int   // how many records were written at that time
	left    int   // left out since the last written record
}

const perSecond = 20

// nextRecord reports whether a record may be written now. If so, it also returns how many records
// were left out since the last written record. The time now is in seconds since 1970.
func (c *recordLimit) nextRecord(now int64) (ok bool, left int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.at != now {
		c.at, c.written = now, 0
	}
	if c.written >= perSecond {
		c.left++
		return false, 0
	}
	c.written++
	left, c.left = c.left, 0
	return true, left
}
