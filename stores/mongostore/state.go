package mongostore

import (
	"fmt"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/padlock-go/padlock/driver"
)

// A record is what padlock stores about a name. It is the value of the document's field "padlock".
type record struct {
	Version int32         `bson:"v"`
	Token   bson.RawValue `bson:"token"` // what padlock wrote to the document's field token
	Until   bson.DateTime `bson:"until"` // what padlock wrote to expires_at
	Old     bool          `bson:"old"`   // see writeStages
	Fence   int64         `bson:"fence"` // the highest fence so far
	Holds   []hold        `bson:"holds"` // including lapsed holds, until somebody else gets the name
	Intent  intent        `bson:"intent"`
	Cool    bson.DateTime `bson:"cool"` // the end of the last cool-down
	Cooled  holder        `bson:"cooled"`
}

// A hold is live until the time in its field Until. Then it has lapsed.
type hold struct {
	Token   bson.RawValue `bson:"t"`
	Shared  bool          `bson:"s"`
	Fence   int64         `bson:"f"`
	Since   bson.DateTime `bson:"b"`
	Until   bson.DateTime `bson:"u"`
	Foreign bool          `bson:"x"` // of a program that knows only Symfony's fields
	Holder  holder        `bson:"h"`
}

// An intent belongs to a reader that waits for its promotion.
type intent struct {
	Token bson.RawValue `bson:"t"`
	Until bson.DateTime `bson:"u"`
}

type holder struct {
	Host  bson.RawValue `bson:"host"`
	PID   int64         `bson:"pid"`
	Label bson.RawValue `bson:"label"`
	Plan  int64         `bson:"plan"` // milliseconds
}

// holderFields returns a holder in the form in which the document stores it.
func holderFields(h *driver.Holder) bson.D {
	d := bson.D{}
	add := func(name string, v any, there bool) {
		if there {
			d = append(d, bson.E{Key: name, Value: v})
		}
	}
	add("host", text(h.Host), h.Host != "")
	add("pid", int64(h.PID), h.PID != 0)
	add("label", text(h.Label), h.Label != "")
	add("plan", millis(h.Plan), h.Plan > 0)
	return d
}

func (h *holder) public() driver.Holder {
	host, _ := fromText(h.Host)
	label, _ := fromText(h.Label)
	return driver.Holder{Host: host, PID: int(h.PID), Label: label, Plan: duration(h.Plan)}
}

// A state is a document as the server returned it, with the server's time.
type state struct {
	ID        bson.RawValue `bson:"_id"`
	Token     bson.RawValue `bson:"token"`
	ExpiresAt bson.DateTime `bson:"expires_at"`
	Record    *record       `bson:"padlock"`
	Now       bson.DateTime `bson:"now"`
}

// projection selects the fields of a document that the store reads, and adds the server's time.
var projection = object("token", int32(1), "expires_at", int32(1), "padlock", int32(1), "now", clock)

// decode turns the document of a name into a state. If another program wrote the token in the
// document, the state contains a hold of that program. In an operation that changes the document,
// openStages does the same on the server.
func decode(raw bson.Raw) (*state, error) {
	var s state
	if err := bson.Unmarshal(raw, &s); err != nil {
		return nil, fmt.Errorf("%w: the document of the lock cannot be read; a newer padlock or another program wrote it", driver.ErrUnavailable)
	}
	if newer := s.Record != nil && s.Record.Version > version; !newer && !isDocumentOfALock(raw) {
		return nil, notALock(raw)
	}
	switch r := s.Record; {
	case r != nil && r.Version > version:
		return nil, fmt.Errorf("%w: a newer padlock has written the document of the lock: update this program", driver.ErrUnavailable)
	case r != nil && s.Token.Equal(r.Token) && s.ExpiresAt == r.Until:
	default:
		other := hold{Token: s.Token, Until: s.ExpiresAt, Foreign: true}
		if r != nil {
			other.Fence = r.Fence
		}
		s.Record = &record{Fence: other.Fence, Holds: []hold{other}}
	}
	return &s, nil
}

// isDocumentOfALock reports what the filter isLock does.
func isDocumentOfALock(raw bson.Raw) bool {
	_, token := fromText(raw.Lookup("token"))
	_, end := raw.Lookup("expires_at").DateTimeOK()
	return token && end
}

func notALock(raw bson.Raw) error {
	return fmt.Errorf("%w: the document with the _id %v is not a lock, so padlock leaves it alone; rename the lock, or give padlock a collection of its own", driver.ErrUnavailable, raw.Lookup("_id"))
}

func is(v bson.RawValue, token string) bool {
	s, ok := fromText(v)
	return ok && s == token
}

func (s *state) find(token string) *hold {
	for i := range s.Record.Holds {
		if is(s.Record.Holds[i].Token, token) {
			return &s.Record.Holds[i]
		}
	}
	return nil
}

// live returns the hold of token. It returns nil if there is none or if its lease has ended.
func (s *state) live(token string) *hold {
	if h := s.find(token); h != nil && h.Until > s.Now {
		return h
	}
	return nil
}

// held returns the live hold of a token, or the reason why the token has none.
func (s *state) held(token string) (*hold, error) {
	switch h := s.find(token); {
	case h == nil, h.Until <= s.Now && s.overtaken(h):
		return nil, driver.ErrLost
	case h.Until <= s.Now:
		return nil, driver.ErrExpired
	default:
		return h, nil
	}
}

// overtaken reports whether somebody may have got the name after h was granted. A foreign hold has
// no fence to compare, so the result for such a hold is true.
func (s *state) overtaken(h *hold) bool { return h.Foreign || h.Fence < s.Record.Fence }

// releaseOutcome returns the outcome of a Release. The receiver s is the state before the Release.
func (s *state) releaseOutcome(token string) driver.Outcome {
	switch h := s.find(token); {
	case h == nil, h.Until <= s.Now && h.Foreign:
		return driver.OutcomeGone
	case h.Until > s.Now:
		return driver.OutcomeReleased
	case s.overtaken(h):
		return driver.OutcomeTaken
	}
	return driver.OutcomeExpired
}

// next returns the fence for the next grant.
func (s *state) next(above uint64) uint64 {
	return max(uint64(s.Record.Fence)+1, above+1, uint64(max(s.Now, 0))*1000)
}

// grant returns the grant for a hold.
func (s *state) grant(h *hold) driver.Grant {
	return driver.Grant{Fence: uint64(h.Fence), TTL: h.Until.Time().Sub(s.Now.Time())}
}

// acquireResult returns the result of an Acquire. The receiver s is the state after the operation.
func (s *state) acquireResult(r *driver.Request) (driver.Grant, error) {
	if h := s.live(r.Token.Text()); h != nil {
		g := s.grant(h)
		g.Shared = h.Shared
		return g, nil
	}
	full := s.next(r.FenceAbove) >= driver.MaxFence
	switch others := s.holdsExcept(r.Token.Text()); {
	case r.Replaces.Text() != "" && full && s.live(r.Replaces.Text()) != nil:
		return driver.Grant{}, driver.ErrFencesUsedUp
	case r.Replaces.Text() != "":
		return driver.Grant{}, driver.ErrLost
	case full && len(others) == 0:
		return driver.Grant{}, driver.ErrFencesUsedUp
	default:
		return driver.Grant{}, heldBy(others)
	}
}

// convertResult returns the result of a Convert. The receiver s is the state after the operation.
func (s *state) convertResult(r *driver.Request) (driver.Grant, error) {
	h, err := s.held(r.Token.Text())
	switch {
	case err != nil:
		return driver.Grant{}, err
	case h.Shared == r.Shared:
		return s.grant(h), nil
	}
	others, intent := s.holdsExcept(r.Token.Text()), &s.Record.Intent
	if wants, ok := fromText(intent.Token); ok && intent.Until > s.Now && wants != r.Token.Text() && s.live(wants) != nil {
		return driver.Grant{}, driver.ErrPromotionConflict
	}
	if len(others) == 0 && s.next(r.FenceAbove) >= driver.MaxFence {
		return driver.Grant{}, driver.ErrFencesUsedUp
	}
	return driver.Grant{}, heldBy(others)
}

// evictResult returns the new fence after the operation evict, or the reason why it failed. The
// receiver s is the state before the operation.
func (s *state) evictResult(seen uint64) (uint64, error) {
	fence := s.next(0)
	switch {
	case uint64(s.Record.Fence) != seen, seen == 0 && len(s.holdsExcept("")) == 0:
		return 0, driver.ErrLost
	case fence >= driver.MaxFence:
		return 0, driver.ErrFencesUsedUp
	}
	return fence, nil
}

func heldBy(holds []driver.Hold) error {
	err := &driver.HeldError{Holds: holds, Waiters: -1}
	for _, h := range holds {
		if h.Until.After(err.Until) {
			err.Until = h.Until
		}
	}
	return err
}

// holdsExcept returns the live holds and the cool-down of the name. It leaves out the hold of the
// given token. All times in the result are by the clock of this process.
func (s *state) holdsExcept(token string) (out []driver.Hold) {
	wall := time.Now()
	at := func(t bson.DateTime) time.Time { return wall.Add(t.Time().Sub(s.Now.Time())) }
	for i := range s.Record.Holds {
		h := &s.Record.Holds[i]
		if h.Until <= s.Now || is(h.Token, token) {
			continue
		}
		r := driver.Hold{Holder: h.Holder.public(), Shared: h.Shared, Foreign: h.Foreign, Until: at(h.Until)}
		if h.Since > 0 {
			r.Since = at(h.Since)
		}
		if r.Plan > 0 {
			r.PlannedEnd = r.Since.Add(r.Plan)
		}
		out = append(out, r)
	}
	if s.Record.Cool > s.Now {
		end := at(s.Record.Cool)
		out = append(out, driver.Hold{Cooling: true, Holder: s.Record.Cooled.public(), Until: end, PlannedEnd: end})
	}
	return out
}

// report returns the state in the form that Inspect and List return.
func (s *state) report(name string) driver.State {
	return driver.State{Name: strings.Clone(name), Holds: s.holdsExcept(""), Fence: uint64(s.Record.Fence), Waiters: -1}
}
