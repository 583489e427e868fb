package padlockweb

import (
	"encoding/json"
	"errors"
	"net/http"

	"github.com/padlock-go/padlock/observe/sampler"
)

// listJSON answers with the snapshot that the table shows, in the JSON of padlock top. The
// parameters q and n select the rows as they do for the pages.
func (w *Web) listJSON(rw http.ResponseWriter, r *http.Request, v *visitor) {
	values := r.URL.Query()
	kind := "table"
	if values.Has("n") {
		kind = "name"
	}
	s := w.snapshot(r.Context())
	q := newQuery(kind, values)
	list := rows(s, v, q)
	if kind == "name" && len(list) == 0 && q.name != "" && v.canSee(q.name) {
		if n := w.lookUp(r.Context(), s, q.name); n.State != sampler.Free || n.Unlisted != nil {
			list = append(list, v.newRow(n, q))
		}
	}
	out := v.visible(s, list)
	out.Place = w.place
	text, err := json.Marshal(out)
	if err != nil { // there is no value that JSON cannot have
		plain(rw, http.StatusInternalServerError, err.Error())
		return
	}
	rw.Header().Set("Content-Type", "application/json")
	status := http.StatusOK
	if s.Taken.IsZero() || s.Err != nil {
		status = http.StatusServiceUnavailable // with the rows that were read last
	}
	rw.WriteHeader(status)
	rw.Write(append(text, '\n'))
}

// visible returns a copy of the snapshot with the given rows and with nothing that the visitor may
// not know. The figures of groups and the holds that ended are those of all names, so they are left
// out.
func (v *visitor) visible(s *sampler.Snapshot, rows []row) *sampler.Snapshot {
	out := *s
	out.Names, out.Groups, out.Ended = nil, nil, nil
	for _, r := range rows {
		n := *r.Name
		n.Why = v.whyUnknown(&n)
		if n.Unlisted != nil {
			n.Unlisted = errors.New(v.reason(n.Unlisted, "the store cannot list them"))
		}
		out.Names = append(out.Names, n)
	}
	if v.prefix != "" {
		out.Cost = sampler.Cost{}
	}
	if s.Err != nil {
		out.Err = errors.New(v.reason(s.Err, "the store cannot be read"))
	}
	if s.Incomplete != nil {
		out.Incomplete = errors.New(v.reason(s.Incomplete, "some locks cannot be read"))
	}
	return &out
}
