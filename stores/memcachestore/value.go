package memcachestore

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/padlock-go/padlock/driver"
)

// format is the version of the type note. A newer padlock may have written values in a later
// version. The store does not change such values.
const format = 1

// note is the value of a name in padlock's own layout. Its times are whole seconds of the server's
// clock, because memcached reports only how many seconds a value has left.
type note struct {
	Format int           `json:"v"`
	Token  string        `json:"token,omitempty"` // empty in a cool-down
	Holder driver.Holder `json:"holder"`          // in a cool-down, the last holder
	Age    int           `json:"age,omitempty"`   // seconds from the grant to the write of this value
	Life   int           `json:"life"`            // seconds from the write of this value to its end
}

// item is the value of a name, as the server has returned it.
type item struct {
	note
	id   string // changes with every write
	over *link  // the connection over which the id was read
	left int    // seconds until the server drops it; the true time is shorter by up to slip
}

// age is the time since the grant in seconds. The true time is shorter by less than slip.
func (i *item) age() int { return i.Age + i.Life - i.left }

// slip is the most, in seconds, by which a value lives shorter than its number of seconds.
// memcached looks at its clock once a second, and counts the whole seconds since its start. Its
// looks are late by about a millisecond each (measured with 1.6.18). So about every quarter of
// an hour one look is just before a whole second and the next one just after the second after
// it. The count then goes up by two, and a value that was written just before lost two seconds
// at once.
const slip = 2

// lifeFor returns for how many seconds the server keeps a value whose lease is ttl. driver.MaxTTL
// keeps the result below 30 days. memcached treats any larger number as a date.
func lifeFor(ttl time.Duration) int { return int((ttl+time.Second-1)/time.Second) + slip }

// keyFor returns the key of a name. In padlock's own layout it is a hash of the name, because a
// memcached key must be short, and because a name could be read as a command.
func (s *Store) keyFor(name string) key {
	if s.symfony {
		return keyOf(s.prefix + name)
	}
	sum := sha256.Sum256([]byte(name))
	return key{text: s.prefix + "padlock:" + base64.RawURLEncoding.EncodeToString(sum[:])}
}

func (s *Store) encode(n *note) []byte {
	if s.symfony {
		return []byte(n.Token)
	}
	n.Format = format
	text, err := json.Marshal(n)
	if err != nil {
		panic(err) // a note has only strings and numbers
	}
	return text
}

func (s *Store) decode(k key, r *reply) (*item, error) {
	i := &item{id: r.flag("c"), over: r.over}
	left, err := strconv.Atoi(r.flag("t"))
	if err != nil || i.id == "" {
		return nil, refusal(*r)
	}
	switch {
	case left < 0 && s.symfony: // Symfony and padlock give each lock an end
		return nil, foreign(k, "a value without an end")
	case left < 0: // another program has taken the end away
		left = int(driver.MaxTTL / time.Second)
	}
	i.left = left
	if s.symfony {
		i.Token = string(r.value)
		return i, nil
	}
	if err := json.Unmarshal(r.value, &i.note); err != nil || i.Format != format {
		return nil, foreign(k, "a value of another form")
	}
	return i, nil
}

// foreign returns the error for a value that is no lock, or that a newer padlock wrote.
func foreign(k key, what string) error {
	return fmt.Errorf("%w: the key %q holds %s; another program or a newer padlock wrote it, and padlock leaves it alone: rename the lock, set a prefix, or remove the value by hand",
		driver.ErrUnavailable, k.text, what)
}

// holdOf describes the hold in an item, for callers of the store.
func (s *Store) holdOf(i *item, now time.Time) driver.Hold {
	h := driver.Hold{Until: now.Add(time.Duration(i.left) * time.Second)}
	if s.symfony {
		return h
	}
	h.Holder, h.Cooling = i.Holder, i.Token == ""
	h.Since = now.Add(-time.Duration(i.age()) * time.Second)
	if h.Plan > 0 && !h.Cooling {
		h.PlannedEnd = h.Since.Add(h.Plan)
	}
	return h
}
