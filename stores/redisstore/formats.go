package redisstore

import (
	"encoding/json"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/padlock-go/padlock/driver"
)

// formats caches the text of the last holder and of the last TTL, since most requests have the same
// holder and TTL.
type formats struct {
	keep       time.Duration // how long a note outlives its lease
	lastHolder atomic.Pointer[holderFormat]
	lastTTL    atomic.Pointer[ttlFormat]
}

type holderFormat struct {
	holder driver.Holder
	text   string
	note   string // the last fields in the note of a new hold: the state and the holder; see note.go
}

type ttlFormat struct {
	ttl   time.Duration
	lease string // ms
	note  string // for how many ms the note is kept
}

// holder returns h as JSON.
func (f *formats) holder(h *driver.Holder) *holderFormat {
	if last := f.lastHolder.Load(); last != nil && last.holder == *h {
		return last
	}
	text, err := json.Marshal(h)
	if err != nil {
		text = nil // cannot happen: strings and numbers can always be written
	}
	next := &holderFormat{*h, string(text), stateHeldNow + string(text)}
	f.lastHolder.Store(next)
	return next
}

// readHolder reads the JSON text of a holder. Any other text is read as an unknown holder.
func readHolder(text string) (h driver.Holder) {
	if text == "" || json.Unmarshal([]byte(text), &h) != nil {
		return driver.Holder{}
	}
	return h
}

func (f *formats) ttl(d time.Duration) *ttlFormat {
	if last := f.lastTTL.Load(); last != nil && last.ttl == d {
		return last
	}
	next := &ttlFormat{d, millis(d), millis(d + f.keep)}
	f.lastTTL.Store(next)
	return next
}

// millis rounds up, so that a lease is never shorter than the caller asked for.
func millis(d time.Duration) string {
	return itoa(int64((d + time.Millisecond - 1) / time.Millisecond))
}

func mode(shared bool) string {
	if shared {
		return "s"
	}
	return "x"
}

func fence(f uint64) string {
	if f == 0 {
		return "0"
	}
	return strconv.FormatUint(f, 10)
}

func digit(yes bool) string {
	if yes {
		return "1"
	}
	return "0"
}
