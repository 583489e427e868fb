package fast

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"
)

// The limits of records.
const (
	MaxRecords  = 50   // records of one series of a name
	MaxRecord   = 4096 // bytes of Record.Text
	MaxRecordID = 40   // bytes of Record.ID

	// RecordKeep is how long, at least, a store keeps the records of a name after the last one,
	// unless it limits the number of names and removes those that have not been used for longest.
	RecordKeep = 400 * 24 * time.Hour
)

// Record is one line of the history of a name.
type Record struct {
	// ID is 1 to MaxRecordID lower-case letters, digits and '-'. Its first byte, a letter, names
	// the series. IDs are compared as strings; the greater one is newer.
	ID string

	// Text is 1 to MaxRecord bytes of UTF-8 without control characters below U+0020.
	Text string
}

// CheckRecords checks an argument of Record, after driver.CheckName.
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
