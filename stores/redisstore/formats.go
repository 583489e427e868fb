package redisstore

import (
	"encoding/json"
	"strconv"
	"time"

	"github.com/padlock-go/padlock/driver"
)

// holderText returns h as JSON.
func holderText(h *driver.Holder) string {
	text, err := json.Marshal(h)
	if err != nil {
		return "" // cannot happen: strings and numbers can always be written
	}
	return string(text)
}

// readHolder reads the JSON text of a holder. Any other text is read as an unknown holder.
func readHolder(text string) (h driver.Holder) {
	if text == "" || json.Unmarshal([]byte(text), &h) != nil {
		return driver.Holder{}
	}
	return h
}

// millis rounds up, so that a lease is never shorter than the caller asked for.
func millis(d time.Duration) string {
	return strconv.FormatInt(int64((d+time.Millisecond-1)/time.Millisecond), 10)
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
