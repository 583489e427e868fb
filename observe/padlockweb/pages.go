package padlockweb

import (
	"net/http"

	"github.com/padlock-go/padlock/internal/printable"
)

func (w *Web) showTable(rw http.ResponseWriter, r *http.Request, v *visitor) {
	w.showLive(rw, r, v, newQuery("table", r.URL.Query()), "Locks")
}

func (w *Web) showName(rw http.ResponseWriter, r *http.Request, v *visitor) {
	q := newQuery("name", r.URL.Query())
	if q.name == "" || !v.canSee(q.name) {
		w.message(rw, r, http.StatusNotFound, v, "There is no lock of this name that you may see.")
		return
	}
	w.showLive(rw, r, v, q, printable.Name(q.name))
}

func (w *Web) showJobs(rw http.ResponseWriter, r *http.Request, v *visitor) {
	if w.history == nil {
		w.message(rw, r, http.StatusNotFound, v, "This server shows no history of runs. Its program must give padlockweb.History.")
		return
	}
	w.showLive(rw, r, v, newQuery("jobs", r.URL.Query()), "Jobs")
}

// showLive answers with a page that changes by itself.
func (w *Web) showLive(rw http.ResponseWriter, r *http.Request, v *visitor, q query, title string) {
	body := w.fragment(r.Context(), w.snapshot(r.Context()), v, q)
	w.setFrame(rw, r, http.StatusOK, v, &content{Title: title, Live: q.events(), Query: q}, body)
}
