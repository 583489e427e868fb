package padlockweb

import (
	"encoding/json"
	"net/http"
	"time"
	"unicode/utf8"

	"github.com/padlock-go/padlock/observe/sampler"
)

// listing is the answer of /api/locks. If padlock ls --json has a field of the same name, both
// fields mean the same.
type listing struct {
	Store      string      `json:"store"`
	Place      string      `json:"place,omitempty"` // without secrets
	Taken      *time.Time  `json:"taken,omitempty"` // when the store was read; missing if it never was
	Error      string      `json:"error,omitempty"` // why the last attempt to read the store failed
	Incomplete string      `json:"incomplete,omitempty"`
	Untracked  int         `json:"without_past,omitempty"` // names whose renewals and past holds are not watched, because there are too many
	Unshown    int         `json:"unshown,omitempty"`      // names that are missing because there are far too many
	Summary    summaryJSON `json:"summary"`
	Locks      []lockJSON  `json:"locks"`
	Cost       *costJSON   `json:"cost,omitempty"`
}

type summaryJSON struct {
	Names   int `json:"names"`
	Held    int `json:"held"`
	Holders int `json:"holders"`
	Waiters int `json:"waiters"`
	Stuck   int `json:"stuck"`
	Hot     int `json:"hot"`
	Unknown int `json:"unknown"`
}

type lockJSON struct {
	Name      string       `json:"name,omitempty"`
	Bytes     []byte       `json:"name_base64,omitempty"` // only if the name is not UTF-8
	Path      string       `json:"path,omitempty"`
	Group     string       `json:"group,omitempty"`
	State     string       `json:"state"`         // held, cooling, free or unknown
	Why       string       `json:"why,omitempty"` // why it is unknown
	Level     string       `json:"level"`         // stuck, hot, or the state
	Stuck     []string     `json:"stuck,omitempty"`
	Holders   []holderJSON `json:"holders"`
	Fence     uint64       `json:"fence,omitempty"`
	Waiters   *int         `json:"waiters,omitempty"` // missing if unknown
	WaitSince *time.Time   `json:"wait_since,omitempty"`
	Grants    uint64       `json:"grants"`
	Missed    uint64       `json:"missed_renewals"`
	Expired   uint64       `json:"expired"`
	Usual     *timesJSON   `json:"usual,omitempty"` // missing if no hold has ended yet
}

type holderJSON struct {
	Slot    *int       `json:"slot,omitempty"`
	Fence   uint64     `json:"fence,omitempty"`
	Host    string     `json:"host,omitempty"`
	PID     int        `json:"pid,omitempty"`
	Label   string     `json:"label,omitempty"`
	Shared  bool       `json:"shared"`
	Foreign bool       `json:"foreign,omitempty"`
	Cooling bool       `json:"cooling,omitempty"`
	Since   *time.Time `json:"since,omitempty"`
	Until   *time.Time `json:"until,omitempty"`
	Planned *time.Time `json:"planned_end,omitempty"`
	Held    float64    `json:"held_seconds"`
	AtLeast bool       `json:"held_at_least,omitempty"` // the hold may be older
	Missed  int        `json:"missed_renewals,omitempty"`
}

type timesJSON struct {
	Count uint64  `json:"count"`
	P50   float64 `json:"p50_seconds"`
	P95   float64 `json:"p95_seconds"`
	P99   float64 `json:"p99_seconds"`
	Max   float64 `json:"max_seconds"`
}

type costJSON struct {
	Interval float64 `json:"interval_seconds"`
	Took     float64 `json:"took_seconds"`
	Names    int     `json:"names"`
	Requests float64 `json:"requests_per_second"`
}

// listJSON answers with the rows of the table. The parameters q, sort, n and h select the rows as
// they do for the pages.
func (w *Web) listJSON(rw http.ResponseWriter, r *http.Request, v *visitor) {
	values := r.URL.Query()
	kind := "table"
	switch {
	case values.Has("n"):
		kind = "name"
	case values.Has("h"):
		kind = "host"
	}
	s := w.snapshot(r.Context())
	q := newQuery(kind, values)
	list := rows(s, v, q)
	if kind == "name" && len(list) == 0 && q.name != "" && v.canSee(q.name) {
		if n := w.lookUp(r.Context(), s, q.name); n.State != sampler.Free {
			list = append(list, newRow(n))
		}
	}
	out := listing{Store: s.Store, Place: w.place, Taken: timeOrNil(s.Taken), Locks: []lockJSON{}}
	if s.Err != nil {
		out.Error = v.reason(s.Err, "the store cannot be read")
	}
	if s.Incomplete != nil {
		out.Incomplete = v.reason(s.Incomplete, "some locks cannot be read")
	}
	t := sum(list)
	out.Summary = summaryJSON{t.Names, t.Held, t.Holds, t.Waiters, t.Stuck, t.Hot, t.Unknown}
	for _, one := range list {
		out.Locks = append(out.Locks, lockOf(one))
	}
	if v.prefix == "" {
		out.Untracked, out.Unshown = s.Untracked, s.Unshown
		out.Cost = &costJSON{s.Cost.Interval.Seconds(), s.Cost.Took.Seconds(), s.Cost.Names, s.Cost.Requests}
	}
	rw.Header().Set("Content-Type", "application/json")
	status := http.StatusOK
	if s.Taken.IsZero() || s.Err != nil {
		status = http.StatusServiceUnavailable // with the rows that were read last
	}
	rw.WriteHeader(status)
	_ = json.NewEncoder(rw).Encode(out) // the client has gone
}

func lockOf(r row) lockJSON {
	out := lockJSON{
		Name: r.Name.Name, Path: r.Path, Group: r.Group, State: string(r.State), Why: r.Why, Level: r.Level, Holders: []holderJSON{},
		Fence: r.SeenFence(), WaitSince: timeOrNil(r.WaitSince), Grants: r.Grants, Missed: r.Missed, Expired: r.Expired,
	}
	if !utf8.ValidString(out.Name) {
		out.Bytes = []byte(out.Name)
	}
	for _, reason := range r.Stuck {
		out.Stuck = append(out.Stuck, string(reason))
	}
	if r.Waiters >= 0 {
		out.Waiters = &r.Waiters
	}
	for _, h := range r.Holds {
		out.Holders = append(out.Holders, holderOf(h))
	}
	if u := r.Usual; u.Count > 0 {
		out.Usual = &timesJSON{u.Count, u.P50.Seconds(), u.P95.Seconds(), u.P99.Seconds(), u.Max.Seconds()}
	}
	return out
}

func holderOf(h sampler.Hold) holderJSON {
	out := holderJSON{
		Fence: h.Fence, Host: h.Host, PID: h.PID, Label: h.Label, Shared: h.Shared, Foreign: h.Foreign, Cooling: h.Cooling,
		Since: timeOrNil(h.Since), Until: timeOrNil(h.Until), Planned: timeOrNil(h.PlannedEnd),
		Held: h.Held.Seconds(), AtLeast: h.AtLeast, Missed: h.Missed,
	}
	if h.Slot >= 0 {
		out.Slot = &h.Slot
	}
	return out
}

// timeOrNil returns a time for JSON. It returns nil for the zero time, which means that the time is
// not known.
func timeOrNil(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC()
	return &t
}
