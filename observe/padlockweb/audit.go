package padlockweb

import (
	"log/slog"
	"net/http"
	"time"

	"github.com/padlock-go/padlock/internal/remote"
)

// refused writes a record for a request that was not allowed.
func (w *Web) refused(r *http.Request, token, reason string, more ...slog.Attr) {
	w.audit(r, slog.LevelWarn, "refused", token, append([]slog.Attr{slog.String("why", reason)}, more...)...)
}

// audit writes a record about a request. Anybody can cause records of refused requests, so the
// number of these records is limited.
func (w *Web) audit(r *http.Request, level slog.Level, event, token string, more ...slog.Attr) {
	attrs := []slog.Attr{
		slog.String("token", token), slog.String("from", remote.Address(r.RemoteAddr)),
		slog.String("method", r.Method), slog.String("path", r.URL.Path),
	}
	if level == slog.LevelWarn {
		ok, left := w.records.Next(time.Now().Unix())
		if !ok {
			return
		}
		if left > 0 {
			attrs = append(attrs, slog.Int("left_out", left))
		}
	}
	w.logger.LogAttrs(r.Context(), level, event, append(attrs, more...)...)
}
