package leasestore

import (
	"encoding/json"
	"regexp"
	"strings"
	"time"

	"github.com/padlock-go/padlock/driver"
)

// The layout of client-go's leader election: the object has the name of the lock, and its spec
// names the holder. A holder of padlock is in the spec, too, together with the record in the
// annotation. The record counts only as long as the spec is the one that was written with it:
//
//	spec                                  what the register returns
//	as written with the record            the record
//	padlock's, but without a holder       the record: an earlier leader has released too late
//	another one, with a holderIdentity    one exclusive hold for leaseDurationSeconds
//	another one, without                  no hold: client-go has released the lock
//
// From v0.34 on, a leader of client-go that was stopped for longer than its lease may release a
// lock that padlock has acquired since. It changes neither the annotations nor leaseTransitions,
// which padlock leaves out. A candidate that takes a lock over adds one to them.
//
// All times count from the moment at which a process sees the object for the first time, as for
// client-go. So neither of the two relies on the clock of the other.

// dnsName is the form of an object's name. Other names have hashes for names in this layout, too:
// client-go cannot use them.
var dnsName = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*$`)

func isObjectName(name string) bool {
	return len(name) <= 253 && dnsName.MatchString(name) && !strings.HasPrefix(name, ownObjects)
}

// record is as much of a record of package register as this layout needs. Its times are
// microseconds since the record was written.
type record struct {
	Format int             `json:"padlock"`
	Nonce  string          `json:"nonce"`
	ID     string          `json:"id,omitempty"`
	Fence  uint64          `json:"fence"`
	Holds  []hold          `json:"holds,omitempty"`
	Cool   int64           `json:"cool,omitempty"`
	Taken  json.RawMessage `json:"taken,omitempty"`
	Spent  json.RawMessage `json:"spent,omitempty"`
}

type hold struct {
	Token  string        `json:"token"`
	Fence  uint64        `json:"fence"`
	Since  int64         `json:"since"`
	Until  int64         `json:"until"`
	Holder driver.Holder `json:"holder,omitzero"`
}

// microTime is the form of the times in a spec.
const microTime = "2006-01-02T15:04:05.000000Z"

// foreign begins the token of client-go's hold in a record. Its spec, in JSON, follows.
const foreign = "client-go "

// specFor returns the spec for a record. It is held for as long as the name is taken. If client-go
// has the lock, that is its own spec again, and mine is false: to clean up, package register writes
// a record although the lock of another holder stays as it is.
func specFor(data []byte) (s spec, mine bool) {
	var r record
	if json.Unmarshal(data, &r) != nil {
		return spec{}, false
	}
	if len(r.Holds) == 1 {
		text, theirs := strings.CutPrefix(r.Holds[0].Token, foreign)
		if theirs && json.Unmarshal([]byte(text), &s) == nil {
			return s, false
		}
	}
	now := time.Now().UTC().Format(microTime)
	s = spec{Seconds: 1, Acquired: now, Renewed: now}
	end := r.Cool
	for _, h := range r.Holds {
		end = max(end, h.Until)
	}
	if end > 0 {
		// One second because candidates count whole ones. Another because they see times in
		// whole seconds: two records of the same second are one to them, seen at the first.
		s.Seconds = int(end/1e6) + 2
		// The name of padlock before it: it must not be the identity of one of client-go's.
		s.Holder = strings.TrimSpace("padlock: " + holderOf(data))
	}
	return s, true
}

// mark returns what tells a spec from all others, for the annotation.
func (s *spec) mark() string { return s.Renewed + " " + s.Holder }

// recordOf returns the record of an object, which client-go may have written last.
func recordOf(o *lease) ([]byte, error) {
	notes := o.Metadata.Annotations
	if _, ours := notes[recordNote]; ours && notes[specNote] == o.Spec.mark() {
		return []byte(notes[recordNote]), nil
	}
	text := notes[recordNote]
	if text != "" && notes[specNote] != "" && o.Spec.Holder == "" && o.Spec.Transitions == 0 {
		return []byte(text), nil // an earlier leader has released too late
	}
	r := record{Format: 1}
	if text != "" {
		if err := json.Unmarshal([]byte(text), &r); err != nil {
			return []byte(text), nil // package register says what is wrong
		}
	}
	r.Nonce, r.Holds, r.Cool = foreign+o.Spec.mark(), nil, 0
	if o.Spec.Holder != "" {
		r.Fence = max(r.Fence, 1) // a name with the fence 0 has no holds that Break could end
		text, err := json.Marshal(o.Spec)
		if err != nil {
			return nil, err
		}
		r.Holds = []hold{{
			Token: foreign + string(text), Fence: r.Fence, Until: int64(o.Spec.Seconds) * 1e6,
			Holder: driver.Holder{Host: o.Spec.Holder, Label: "leader election"},
		}}
	}
	return json.Marshal(r)
}

// holderOf returns the first holder in a record, or "".
func holderOf(data []byte) string {
	var record struct {
		Holds []struct{ Holder driver.Holder }
	}
	if json.Unmarshal(data, &record) != nil || len(record.Holds) == 0 {
		return ""
	}
	h := record.Holds[0].Holder
	return strings.TrimSpace(h.Host + " " + h.Label)
}
