package driver

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"
)

// These limits apply to every [Recorder].
const (
	MaxRecords  = 50   // records of one series of a name
	MaxRecord   = 4096 // bytes of Record.Text
	MaxRecordID = 40   // bytes of Record.ID

	// RecordKeep is the minimum time for which a store keeps the records of a name after the last
	// one was written. A store that must limit the number of names may remove the names that have
	// not been used for the longest time.
	RecordKeep = 400 * 24 * time.Hour
)

// Record is one line of the history that a [Recorder] keeps for a name.
type Record struct {
	// ID is 1 to MaxRecordID lower-case letters, digits and '-'. Its first byte is a letter and
	// names the series. The IDs of a series are compared as strings: a record with a greater ID is
	// newer.
	ID string

	// Text is 1 to MaxRecord bytes of valid UTF-8 without control characters below U+0020, such as
	// JSON. The store does not look into it.
	Text string
}

// CheckRecords returns ErrInvalid for records that no store can keep, and for an empty list. The
// Record method of every store calls it, after CheckName.
func CheckRecords(records []Record) error {
	if len(records) == 0 || len(records) > MaxRecords {
		return invalid("records", fmt.Sprintf("are %d, 1 to %d are allowed", len(records), MaxRecords))
	}
	for _, r := range records {
		if !validRecordID(r.ID) {
			return invalid("record id", "has something else than 1 to 40 lower-case letters, digits and '-', the first one a letter")
		}
		if r.Text == "" || len(r.Text) > MaxRecord {
			return invalid("record", fmt.Sprintf("has %d bytes, 1 to %d are allowed", len(r.Text), MaxRecord))
		}
		if !utf8.ValidString(r.Text) || strings.ContainsFunc(r.Text, func(c rune) bool { return c < ' ' }) {
			return invalid("record", "is not UTF-8, or has a control character")
		}
	}
	return nil
}

func validRecordID(id string) bool {
	for i, c := range []byte(id) {
		letter := 'a' <= c && c <= 'z'
		if !letter && (i == 0 || c != '-' && (c < '0' || c > '9')) {
			return false
		}
	}
	return id != "" && len(id) <= MaxRecordID
}
