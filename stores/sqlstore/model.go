package sqlstore

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"time"

	"github.com/padlock-go/padlock/driver"
)

// micros is a time by the server's clock: microseconds since 1970.
type micros int64

func (t micros) add(d time.Duration) micros { return t + micros(d.Microseconds()) }

// timeUntil returns the time from now to t.
func (t micros) timeUntil(now micros) time.Duration { return time.Duration(t-now) * time.Microsecond }

// A state is a copy of everything that the tables say about one name. An operation of the store
// reads this copy, decides with the functions of this package what to change in it, and writes it
// back. If somebody else has changed the row meanwhile, the operation starts again. So the
// functions are the same for every database, and each of them sees one consistent state.
type state struct {
	version int64  // of the row in the table; 0 if there is no row
	fence   uint64 // the highest fence so far

	holds  []hold   // includes lapsed holds until somebody else gets the name
	queue  []place  // in order of arrival
	lost   []opaque // tokens of holds that were broken, or that lapsed before others got the name
	spent  []spent  // tokens that must not be granted any more
	intent intent   // the reader that waits for its promotion
	// free is when the name became free for the first waiter in the queue. It is 0 if that waiter
	// cannot take the name yet.
	free   micros
	cool   micros // nobody gets the name before this time
	cooled driver.Holder

	lapsed []hold // reservations that dropReservations has removed from holds
}

// A hold is either granted, or reserved for a waiter that still has to claim it.
//
//	reserved  until > now  meaning
//	no        yes          the hold is live
//	no        no           the hold has lapsed; Release reports Expired until somebody else gets the
//	                       name
//	yes       yes          the name was handed over; Acquire with the token claims it
//	yes       no           the waiter did not claim it in time; it counts as if it never existed,
//	                       except that Release reports Expired while the row still has it
type hold struct {
	Token    opaque        `json:"t"`
	Shared   bool          `json:"s,omitempty"`
	Reserved bool          `json:"r,omitempty"`
	Fence    uint64        `json:"f"`
	Since    micros        `json:"b"`
	Until    micros        `json:"u"`
	Least    micros        `json:"l,omitempty"` // the name stays taken until this time
	Holder   driver.Holder `json:"h"`
}

// A place is the entry of one waiter in the queue. The waiter has to renew its place from time to
// time. A place that was not renewed lapses: it no longer counts, and it is removed later.
type place struct {
	Token   opaque        `json:"t"`
	Shared  bool          `json:"s,omitempty"`
	Above   uint64        `json:"a,omitempty"` // Request.FenceAbove
	Push    bool          `json:"p,omitempty"` // if true, the database wakes the waiter, and the name may be reserved for it; if false, the waiter polls
	Channel string        `json:"c,omitempty"` // the channel on which the database wakes the waiter; "" means sharedChannel
	Until   micros        `json:"u"`
	Holder  driver.Holder `json:"h"`
}

// newPlace makes a place for r. push is the channel on which the database wakes the waiter, or "".
func newPlace(r *driver.Request, push string, until micros) place {
	return place{opaque(r.Token), r.Shared, r.FenceAbove, push != "", push, until, r.Holder}
}

// A reservation is a message to a waiter. It says that the name is now reserved for that waiter,
// which has to claim the name. There is a second kind of message, with the fence 0. It only asks
// the waiter to look at the name, and reserves nothing.
type reservation struct {
	to       address // the waiter that gets the message
	fence    uint64
	since    micros // when the reservation was made
	notified bool   // the waiters of other processes have been notified

	// next is the waiter behind the receiver of this message in the queue, or the zero address. If
	// the receiver does not claim the reservation in time, that waiter has to look at the name.
	next address
}

// An address says how to wake a waiter. A waiter of this process is found by its token. A waiter of
// another process is notified through the database, unless it polls.
type address struct {
	token   opaque
	push    bool
	channel string // "" means sharedChannel
}

func (p *place) address() address { return address{p.Token, p.Push, p.Channel} }

// The type opaque is for tokens. A token may contain bytes that a JSON string cannot contain, so
// tokens are written to JSON in base64.
type opaque string

func (o opaque) MarshalText() ([]byte, error) {
	return base64.RawStdEncoding.AppendEncode(nil, []byte(o)), nil
}

func (o *opaque) UnmarshalText(text []byte) error {
	b, err := base64.RawStdEncoding.DecodeString(string(text))
	*o = opaque(b)
	return err
}

type spent struct {
	Token opaque `json:"t"`
	Until micros `json:"u"`
}

type intent struct {
	Token opaque `json:"t,omitempty"`
	Until micros `json:"u,omitempty"`
}

const (
	maxLost = 16

	// spentFor is how long a token is refused after Release found no hold for it. An Acquire whose
	// caller has given up may still be on its way to the server. It arrives within this time or
	// never.
	spentFor = time.Minute

	// placeFor is how long a waiter keeps its place without renewing it.
	placeFor = 40 * time.Second
)

// hash returns a text that identifies the token without revealing it.
func (o opaque) hash() string {
	sum := sha256.Sum256([]byte(o))
	return hex.EncodeToString(sum[:12])
}
