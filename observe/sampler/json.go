package sampler

import (
	"encoding/json"
	"time"
	"unicode/utf8"
)

// The JSON is the same for each program that shows locks: padlock status, ls, wait, top and the
// page. A value that is unknown is left out. So are most figures that are 0: the tags say which.
// Durations are in seconds, times in RFC 3339 and UTC, and a name that is not UTF-8 is also given
// in base64.

type nameJSON struct {
	Name       string     `json:"name,omitempty"`
	NameBase64 []byte     `json:"name_base64,omitempty"`
	Held       *bool      `json:"held,omitempty"` // missing if State is Unknown
	State      State      `json:"state"`
	Why        string     `json:"why_unknown,omitempty"`
	Level      string     `json:"level"`
	Group      string     `json:"group,omitempty"`
	Path       string     `json:"path,omitempty"`
	Seen       time.Time  `json:"seen,omitzero"`
	Holders    []Hold     `json:"holders"`
	Fence      uint64     `json:"fence,omitempty"`
	SlotCount  int        `json:"slot_count,omitempty"`
	Unlisted   string     `json:"slots_unknown,omitempty"`
	Waiters    *int       `json:"waiters,omitempty"`
	ForSlots   int        `json:"slot_waiters,omitempty"`
	WaitSince  time.Time  `json:"waiters_since,omitzero"`
	Waiting    float64    `json:"waiting_seconds,omitempty"`
	WaitTime   float64    `json:"wait_seconds_total,omitempty"`
	Asked      *askedJSON `json:"asked,omitempty"`
	Stuck      []Reason   `json:"stuck,omitempty"`
	Slowness   float64    `json:"slowness,omitempty"`
	Usual      Times      `json:"hold_seconds,omitzero"`
	Ended      []Ended    `json:"ended,omitempty"`
	countsJSON
}

type countsJSON struct {
	Grants  uint64 `json:"grants,omitempty"`
	Missed  uint64 `json:"missed_renewals,omitempty"`
	Expired uint64 `json:"expired,omitempty"`
}

// MarshalJSON implements json.Marshaler.
func (n Name) MarshalJSON() ([]byte, error) {
	out := nameJSON{
		Name: n.Name, NameBase64: notUTF8(n.Name), Path: n.Path, Group: n.Group, State: n.State, Why: n.Why, Level: n.Level(), Seen: utc(n.Seen),
		Holders: notNil(n.Holds), Fence: n.Fence, SlotCount: n.Slots, Unlisted: text(n.Unlisted), ForSlots: n.SlotWaiters,
		WaitSince: utc(n.WaitSince), Waiting: max(0, n.Waiting).Seconds(), WaitTime: n.WaitTime.Seconds(),
		Stuck: n.Stuck, Slowness: n.Slowness, Usual: n.Usual, Ended: n.Ended, countsJSON: countsJSON(n.Figures),
	}
	if n.State != Unknown {
		held := len(n.Blocking(n.Slots)) > 0
		out.Held = &held
	}
	if n.Waiters >= 0 {
		out.Waiters = &n.Waiters
	}
	if q := n.Asked; q != nil {
		out.Asked = &askedJSON{q.Reason, q.By.Host, q.By.PID, utc(q.At), q.Fence}
	}
	return json.Marshal(out)
}

// askedJSON says who asks the holder to finish early.
type askedJSON struct {
	Reason string    `json:"reason,omitempty"`
	Host   string    `json:"host,omitempty"`
	PID    int       `json:"pid,omitempty"`
	Since  time.Time `json:"since,omitzero"`
	Fence  uint64    `json:"fence"`
}

// lastTime is the latest time that encoding/json can write.
var lastTime = time.Date(9999, time.December, 31, 23, 59, 59, 0, time.UTC)

// utc returns the time for JSON. RFC 3339 has no year above 9999, so a later time becomes lastTime.
// A time before the year 0 becomes the zero time.
func utc(t time.Time) time.Time {
	switch t = t.UTC(); {
	case t.After(lastTime):
		return lastTime
	case t.Year() < 0:
		return time.Time{}
	}
	return t
}

// notUTF8 returns the name as bytes if a JSON string cannot contain the name. Otherwise notUTF8
// returns nil.
func notUTF8(name string) []byte {
	if utf8.ValidString(name) {
		return nil
	}
	return []byte(name)
}

// MarshalJSON implements json.Marshaler.
func (h Hold) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		holderJSON
		Slot       *int      `json:"slot,omitempty"`
		Fence      uint64    `json:"fence,omitempty"`
		Path       string    `json:"path,omitempty"`
		Cooling    bool      `json:"cooling,omitempty"`
		Since      time.Time `json:"since,omitzero"`
		Until      time.Time `json:"until,omitzero"`
		PlannedEnd time.Time `json:"planned_end,omitzero"`
		FirstSeen  time.Time `json:"first_seen,omitzero"`
		Held       float64   `json:"held_seconds,omitempty"`
		AtLeast    bool      `json:"held_at_least,omitempty"`
		Renewals   int       `json:"renewals,omitempty"`
		Missed     int       `json:"missed_renewals,omitempty"`
	}{
		holderJSON{h.Host, h.PID, h.Label, h.Shared, h.Foreign}, slotOf(h.Slot), h.Fence, h.Path, h.Cooling,
		utc(h.Since), utc(h.Until), utc(h.PlannedEnd), utc(h.FirstSeen), h.Held.Seconds(), h.AtLeast, h.Renewals, h.Missed,
	})
}

type holderJSON struct {
	Host    string `json:"host,omitempty"`
	PID     int    `json:"pid,omitempty"`
	Label   string `json:"label,omitempty"`
	Shared  bool   `json:"shared"`
	Foreign bool   `json:"foreign,omitempty"`
}

func slotOf(n int) *int {
	if n < 0 {
		return nil
	}
	return &n
}

// MarshalJSON implements json.Marshaler.
func (e Ended) MarshalJSON() ([]byte, error) {
	var held *float64
	if e.Held >= 0 {
		seconds := e.Held.Seconds()
		held = &seconds
	}
	return json.Marshal(struct {
		Name       string `json:"name"`
		NameBase64 []byte `json:"name_base64,omitempty"`
		holderJSON
		Slot  *int      `json:"slot,omitempty"`
		Fence uint64    `json:"fence,omitempty"`
		Since time.Time `json:"since,omitzero"`
		End   time.Time `json:"end"`
		Held  *float64  `json:"held_seconds,omitempty"`
		How   How       `json:"how"`
	}{e.Name, notUTF8(e.Name), holderJSON{e.Host, e.PID, e.Label, e.Shared, e.Foreign}, slotOf(e.Slot), e.Fence, utc(e.Since), utc(e.End), held, e.How})
}

// MarshalJSON implements json.Marshaler.
func (t Times) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Count uint64  `json:"count"`
		P50   float64 `json:"p50"`
		P95   float64 `json:"p95"`
		P99   float64 `json:"p99"`
		Max   float64 `json:"max"`
	}{t.Count, t.P50.Seconds(), t.P95.Seconds(), t.P99.Seconds(), t.Max.Seconds()})
}

// MarshalJSON implements json.Marshaler.
func (g Group) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Group    string  `json:"group"`
		Names    int     `json:"names"`
		Holds    int     `json:"holds"`
		Waiters  int     `json:"waiters"`
		Stuck    int     `json:"stuck"`
		WaitTime float64 `json:"wait_seconds_total"`
		Usual    Times   `json:"hold_seconds"`
		countsJSON
	}{g.Group, g.Names, g.Holds, g.Waiters, g.Stuck, g.WaitTime.Seconds(), g.Usual, countsJSON(g.Figures)})
}

// MarshalJSON implements json.Marshaler.
func (s *Snapshot) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		headJSON
		Totals Totals  `json:"summary"`
		Names  []Name  `json:"names"`
		Groups []Group `json:"groups,omitempty"`
		Ended  []Ended `json:"ended,omitempty"`
	}{s.head(), s.Totals(), notNil(s.Names), s.Groups, s.Ended})
}

func notNil[T any](all []T) []T {
	if all == nil {
		return []T{}
	}
	return all
}

type headJSON struct {
	Number     uint64    `json:"number"`
	Store      string    `json:"store"`
	Place      string    `json:"place,omitempty"`
	Prefix     string    `json:"prefix,omitempty"`
	Begun      time.Time `json:"begun,omitzero"`
	Tried      time.Time `json:"tried,omitzero"`
	Taken      time.Time `json:"taken,omitzero"`
	Err        string    `json:"error,omitempty"`
	Incomplete string    `json:"incomplete,omitempty"`
	Interval   float64   `json:"interval_seconds,omitempty"`
	Took       float64   `json:"sample_seconds,omitempty"`
	Read       int       `json:"names_read,omitempty"`
	Requests   float64   `json:"requests_per_second,omitempty"`
}

func (s *Snapshot) head() headJSON {
	return headJSON{
		Number: s.Number, Store: s.Store, Place: s.Place, Prefix: s.Prefix, Begun: utc(s.Begun), Tried: utc(s.Tried), Taken: utc(s.Taken),
		Err: text(s.Err), Incomplete: text(s.Incomplete),
		Interval: s.Cost.Interval.Seconds(), Took: s.Cost.Took.Seconds(), Read: s.Cost.Names, Requests: s.Cost.Requests,
	}
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
