package padlockweb

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/driver/fast"
	"github.com/padlock-go/padlock/internal/printable"
	"github.com/padlock-go/padlock/observe/sampler"
)

// target is the lock that a visitor wants to break.
type target struct {
	row          // the lock as the store knows it now; its name and its title include the slot, if any
	Plain string // the name without the slot
	slot  int    // -1 if it is no slot
}

// maxReason is the length of the longest reason for a break.
const maxReason = 300

// mayBreak checks everything that does not depend on the lock. If a check fails, it answers the
// request and returns false.
func (w *Web) mayBreak(rw http.ResponseWriter, r *http.Request, v *visitor, stored string) (t *target, ok bool) {
	name, slot, isSlot := fast.SplitSlot(stored)
	if !isSlot {
		name = stored
	}
	t = &target{row: row{Title: printable.Name(name)}, Plain: name, slot: -1}
	if isSlot {
		t.Title += ", slot " + strconv.Itoa(slot)
		t.slot = slot
	}
	switch {
	case !w.allowBreak:
		w.refused(r, v.token.name, "the server is read-only", slog.String("name", name))
		w.message(rw, r, http.StatusForbidden, v, "This server is read-only.")
		return nil, false
	case !v.known():
		w.refused(r, "", "a break needs a visitor with a name", slog.String("name", name))
		w.message(rw, r, http.StatusForbidden, v, "A break needs a visitor with a name.")
		return nil, false
	case stored == "" || slot < 0 || !v.canBreak(name):
		w.refused(r, v.token.name, "the name is not one of the visitor's", slog.String("name", name), slog.String("prefix", v.prefix))
		w.message(rw, r, http.StatusNotFound, v, "There is no lock of this name that you may break.")
		return nil, false
	}
	n, err := sampler.Look(r.Context(), w.locker, stored, 0)
	if err != nil {
		w.message(rw, r, http.StatusServiceUnavailable, v, "The store cannot be read: "+printable.Name(err.Error()))
		return nil, false
	}
	t.Name = &n
	return t, true
}

// askBreak shows the holder, its age and its fence, and asks for the reason.
func (w *Web) askBreak(rw http.ResponseWriter, r *http.Request, v *visitor) {
	t, ok := w.mayBreak(rw, r, v, r.URL.Query().Get("n"))
	if !ok {
		return
	}
	if problem := unbreakable(t); problem != "" {
		w.message(rw, r, http.StatusConflict, v, problem)
		return
	}
	w.page(rw, r, http.StatusOK, v, "break", &content{Title: "Break " + t.Title, Target: t, One: &t.row})
}

// unbreakable returns the reason why the target cannot be broken, or "" if it can.
func unbreakable(t *target) string {
	switch {
	case len(t.Holds) == 0:
		return t.Title + " is free. There is nothing to break."
	case t.Fence == 0:
		return "The hold on " + t.Title + " has no fence, so the page cannot see whether it is another one. To break whatever hold there is, use the command: padlock break --yes."
	}
	return ""
}

// breakLock breaks a lock. The form has the fence that the visitor saw, and the reason. The name is
// in the address, because a form can send only text.
func (w *Web) breakLock(rw http.ResponseWriter, r *http.Request, v *visitor) {
	if err := r.ParseForm(); err != nil {
		w.message(rw, r, http.StatusBadRequest, v, "The form could not be read.")
		return
	}
	t, ok := w.mayBreak(rw, r, v, r.Form.Get("n"))
	if !ok {
		return
	}
	seen, err := strconv.ParseUint(r.PostForm.Get("fence"), 10, 64)
	reason := strings.TrimSpace(r.PostForm.Get("reason"))
	ask := &content{Title: "Break " + t.Title, Target: t, One: &t.row, Reason: reason}
	switch problem := unbreakable(t); {
	case problem != "":
		w.message(rw, r, http.StatusConflict, v, problem)
		return
	case err != nil || seen == 0:
		w.message(rw, r, http.StatusBadRequest, v, "The fence that was seen is missing.")
		return
	case seen != t.Fence:
		ask.Problem = "Nothing was broken: the lock has changed hands since you looked. This is the holder now."
		w.page(rw, r, http.StatusConflict, v, "break", ask)
		return
	case reason == "":
		ask.Problem = "Nothing was broken: a reason is missing."
		w.page(rw, r, http.StatusBadRequest, v, "break", ask)
		return
	case len(reason) > maxReason || !utf8.ValidString(reason):
		ask.Problem = "Nothing was broken: the reason is longer than " + strconv.Itoa(maxReason) + " bytes, or not text."
		w.page(rw, r, http.StatusBadRequest, v, "break", ask)
		return
	}
	w.reallyBreak(rw, r, v, t, reason)
}

// maxLogged limits how many holders the audit record of a broken lock contains. Many readers can
// hold one lock.
const maxLogged = 10

// breakPatience is how long a break and the sample after it may take.
const breakPatience = 10 * time.Second

// reallyBreak breaks the hold if it still has the fence that the visitor saw, and writes the audit
// record.
func (w *Web) reallyBreak(rw http.ResponseWriter, r *http.Request, v *visitor, t *target, reason string) {
	// The visitor may go away, but the audit record has to say whether the lock was broken.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), breakPatience)
	defer cancel()
	fence, err := w.locker.Break(ctx, t.Name.Name, t.Fence)
	event := "break"
	attrs := []slog.Attr{slog.String("name", t.Plain), slog.Int("slot", t.slot), slog.Uint64("fence", t.Fence), slog.String("reason", reason)}
	for i, h := range t.Holds[:min(len(t.Holds), maxLogged)] {
		attrs = append(attrs, slog.Group("holder"+strconv.Itoa(i), "host", h.Host, "pid", h.PID, "label", h.Label, "since", h.Since))
	}
	if err != nil {
		event = "break failed"
		attrs = append(attrs, slog.String("error", err.Error()))
	}
	w.audit(r, slog.LevelInfo, event, v.token.name, attrs...)
	switch {
	case err == nil:
		_, _ = w.sampler.Sample(ctx) // so that the next page shows that the lock is broken
		w.page(rw, r, http.StatusOK, v, "message", &content{
			Title: t.Title + " is broken",
			Good:  "The lock is broken. Its holder was " + holderName(t.Holds[0].Host, t.Holds[0].PID, t.Holds[0].Foreign) + ". The next fence is above " + strconv.FormatUint(fence, 10) + ".",
		})
	case errors.Is(err, padlock.ErrUncertain), errors.Is(err, padlock.ErrUnavailable):
		w.message(rw, r, http.StatusServiceUnavailable, v, "It is not known whether the lock was broken: "+printable.Name(err.Error()))
	case errors.Is(err, padlock.ErrLost):
		w.message(rw, r, http.StatusConflict, v, "Nothing was broken: the lock has changed hands since you looked.")
	case errors.Is(err, errors.ErrUnsupported):
		w.message(rw, r, http.StatusConflict, v, "This store cannot break locks: they end with the process that holds them.")
	default:
		w.message(rw, r, http.StatusInternalServerError, v, "The lock was not broken: "+printable.Name(err.Error()))
	}
}
