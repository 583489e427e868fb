package register

import (
	"cmp"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/storekit"
	"github.com/padlock-go/padlock/storekit/decide"
)

// format is the version of the records that this package writes.
const format = 1

// A record is the value of a name. Times are microseconds since 1970 by the service's clock. With
// Clock.Observed, they count from the moment at which the record was written.
type record struct {
	Format int    `json:"padlock"`
	Nonce  string `json:"nonce"`        // no two records are equal: a version may be a hash of the data
	ID     string `json:"id,omitempty"` // of the store; only in the record of ""
	decide.State
}

// hash returns what stands for a token in a record: a reader of the records must not be able to
// release a lock.
func hash(token string) string {
	sum := sha256.Sum256([]byte(token))
	return base64.RawURLEncoding.EncodeToString(sum[:15])
}

// A view is a record as one Get found it.
type view struct {
	record
	version string
	now     decide.Now
	from    driver.Instant // when the Get was sent
}

// errForeign is the error about a value that another program has written.
var errForeign = errors.New("is no record of padlock")

// decode makes a view of a value that Get has returned.
func (s *Store) decode(name string, v Value, from driver.Instant) (*view, error) {
	if v.Now.IsZero() && !s.opts.Clock.Observed {
		return nil, fmt.Errorf("%w: the register returns no time for %q: Get must set Value.Now", driver.ErrUnavailable, name)
	}
	w := &view{version: v.Version, from: from, now: s.now(v)}
	if v.Version != "" {
		if err := json.Unmarshal(v.Data, &w.record); err != nil || w.Format == 0 {
			return nil, fmt.Errorf("%w: the value of %q %w, which leaves it alone: rename the lock, or use a place for locks only", driver.ErrUnavailable, name, errForeign)
		}
		if w.Format > format {
			return nil, fmt.Errorf("%w: a newer padlock has written the value of %q: install that version here", driver.ErrUnavailable, name)
		}
	}
	if s.opts.Clock.Observed {
		s.sight(name, w)
	}
	w.Trim(w.now)
	return w, nil
}

func (s *Store) now(v Value) decide.Now {
	if s.opts.Clock.Observed {
		return decide.Now{At: decide.Time(s.local.Now() / driver.Instant(time.Microsecond)), Wall: time.Now().UnixMicro()}
	}
	at := v.Now.UnixMicro()
	return decide.Now{At: decide.Time(at), Slack: s.opts.Clock.Grain + s.opts.Clock.Skew, Wall: at}
}

// encode returns the data for the next Put, and the number by which the record is recognised. The
// view is of no use afterwards.
func (w *view) encode(observed bool) (data []byte, nonce string, err error) {
	r := w.record
	r.Format, r.Nonce = format, rand.Text()
	if observed {
		r.mark()
		r.shift(-w.now.At)
	}
	data, err = json.Marshal(r)
	return data, r.Nonce, err
}

// reserve is what a record may grow by without another hold: by spent and taken tokens, an intent,
// and the last holder before a cool-down.
const reserve = 16 << 10

// spareFor returns how much of the room that nobody needs yet an Acquire must leave. A hold that is
// handed on adds only the label of its new holder, so half of the reserve is enough.
func spareFor(granted, replaces bool) int {
	switch {
	case !granted:
		return 0
	case replaces:
		return reserve / 2
	default:
		return reserve
	}
}

// checkSize returns an error if a new holder makes a record too long.
func (c *call) checkSize(data []byte) error {
	if limit := c.opts.MaxData - c.spare; c.spare > 0 && c.opts.MaxData > 0 && len(data) > limit {
		return fmt.Errorf("%w: with this holder the record of %q has %d bytes, and the service takes %d: wait until other readers have released, or give them shorter labels", driver.ErrUnavailable, c.name, len(data), limit)
	}
	return nil
}

// shift moves all times of a record by d.
func (r *record) shift(d decide.Time) {
	move := func(t *decide.Time) {
		if *t != 0 {
			*t += d
		}
	}
	for i := range r.Holds {
		h := &r.Holds[i]
		h.Since, h.Until = h.Since+d, h.Until+d
	}
	for i := range r.Spent {
		r.Spent[i].Until += d
	}
	move(&r.Cool)
	move(&r.Intent.Until)
}

// mark gives the holds that this call has granted a mark of its own. By it, other processes
// recognise a hold that nobody has extended.
func (r *record) mark() {
	for i := range r.Holds {
		if h := &r.Holds[i]; h.Change == "" {
			h.Change = r.Nonce[:13] // 65 bits
		}
	}
}

// A sighting is what this process knows about the times of a record.
type sighting struct {
	nonce string
	at    decide.Time                     // when this process knew of the record for the first time
	ends  map[storekit.HoldID]decide.Time // of its holds, by mark and token
}

// sight makes the times of a record those of this process. They count from the moment at which it
// knew of the record. But a hold that was in earlier records ends no later than it did there, or
// the renewals of other readers would keep a dead one alive. A hold without a mark, which an older
// padlock has written, counts as granted with its record.
func (s *Store) sight(name string, w *view) {
	s.mu.Lock()
	defer s.mu.Unlock()
	seen, ok := s.seen[name]
	if !ok || seen.nonce != w.Nonce {
		seen.nonce, seen.at = w.Nonce, w.now.At
	}
	w.shift(seen.at)
	ends := make(map[storekit.HoldID]decide.Time, len(w.Holds))
	for i := range w.Holds {
		h := &w.Holds[i]
		id := storekit.IDOf(cmp.Or(h.Change, w.Nonce), h.Token)
		if end, ok := seen.ends[id]; ok {
			h.Until = min(h.Until, end)
		}
		ends[id] = h.Until
	}
	seen.ends = ends
	s.note(name, seen)
}

// wrote notes a record of this call, which is known to be written. With Clock.Observed, its times
// count from the moment of the decision.
func (c *call) wrote(nonce string, at decide.Time) {
	if !c.opts.Clock.Observed {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.note(c.name, sighting{nonce, at, c.seen[c.name].ends})
}

// maxSeen is the number of names whose records this process remembers. A name that it forgot looks
// held for the length of its lease once more.
const maxSeen = 100_000

func (s *Store) note(name string, seen sighting) {
	if _, known := s.seen[name]; !known && len(s.seen) >= maxSeen {
		for other := range s.seen {
			delete(s.seen, other)
			break
		}
	}
	s.seen[name] = seen
}
