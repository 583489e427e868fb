package redisstore

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/padlock-go/padlock/driver"
)

// The note of a name is a string. It consists of the fields in this table, one after the other. Go
// finds a field with the constants below. A script finds it with a word such as NOTE_TOKEN. The
// function spell replaces these words by numbers.
//
//	field     bytes   content
//	flag      1       the version of the format, and whether the lock has more keys; see below
//	fence     16      the last fence, decimal
//
// These fields follow if the last exclusive hold is known:
//
//	length    3       the length of the token in bytes, decimal
//	token     length  the token of the hold
//	state     1       h: held; r: reserved; H: held, but without the fields unused and since
//	unused    13      zeros; older builds have an earliest end of the hold here
//	since     13      when the hold began, in ms since 1970
//	holder    rest    the holder as JSON
//
// In the state H, the time in the fence is also the beginning of the hold.
//
// Flag and fence are at the same place in every version. The flag says whether the lock is simple.
// A simple lock has only its key and its note. Any other lock may have readers, waiters, or other
// things that only the full scripts know.
//
//	version  flag of a simple lock  flag of any other lock
//	1        -                      !
//	2        B                      b
//	3        C                      c
//
// Version 4 has D and d, and so on.
const (
	flagBytes   = 1
	fenceBytes  = 16
	lengthBytes = 3
	stateBytes  = 1
	timeBytes   = 13

	fenceAt  = flagBytes
	lengthAt = fenceAt + fenceBytes
	tokenAt  = lengthAt + lengthBytes

	noteVersion = 1
	flagSimple  = '-'
	flagMore    = '!'
	lastFlag    = max(flagSimple, flagMore) // flags of later versions are greater

	stateHeld     = "h"
	stateReserved = "r"
	stateHeldNow  = "H"
)

// Times that the scripts have in common, in ms.
const (
	reserveMillis = int(driver.MaxReservation / time.Millisecond) // how long a waiter has to claim a reservation
	aliveMillis   = 45_000                                        // a waiter that has not looked at its name for so long counts as dead
	lingerMillis  = 60_000                                        // how long keys of waiters and readers outlive their last use
)

// scriptWords has the words that are replaced in the text of every script, with their replacements.
// A position in Lua is one higher than in Go, because Lua counts from 1.
var scriptWords = map[string]string{
	"NOTE_VERSION":    strconv.Itoa(noteVersion),
	"NOTE_FENCE":      strconv.Itoa(fenceAt + 1),
	"NOTE_FENCE_END":  strconv.Itoa(lengthAt),
	"NOTE_LENGTH":     strconv.Itoa(lengthAt + 1),
	"NOTE_LENGTH_END": strconv.Itoa(tokenAt),
	"NOTE_TOKEN":      strconv.Itoa(tokenAt + 1),
	"NOTE_STATE":      strconv.Itoa(stateBytes),
	"NOTE_TIME":       strconv.Itoa(timeBytes),
	"COUNTED_TOKEN":   strconv.Itoa(lengthBytes + 1), // where the token begins in a text that starts with the token's length
	"NOTE_SIMPLE":     "'" + string(flagSimple) + "'",
	"NOTE_MORE":       "'" + string(flagMore) + "'",
	"BYTE_SIMPLE":     strconv.Itoa(flagSimple),
	"BYTE_LAST_FLAG":  strconv.Itoa(lastFlag),
	"NOTE_HELD":       "'" + stateHeld + "'",
	"NOTE_RESERVED":   "'" + stateReserved + "'",
	"NOTE_HELD_NOW":   "'" + stateHeldNow + "'",
	"BYTE_HELD_NOW":   strconv.Itoa(int(stateHeldNow[0])),
	"NOTE_HELD_0":     "'" + stateHeld + strings.Repeat("0", timeBytes) + "'", // with the unused field
	"NOTE_RESERVED_0": "'" + stateReserved + strings.Repeat("0", timeBytes) + "'",
	"FORMAT_FENCE":    "'%0" + strconv.Itoa(fenceBytes) + ".0f'",
	"FORMAT_LENGTH":   "'%0" + strconv.Itoa(lengthBytes) + "d'",
	"FORMAT_TIME":     "'%0" + strconv.Itoa(timeBytes) + ".0f'",
	"CHANNEL_LENGTH":  strconv.Itoa(shardedDigits),
	"MS_RESERVE":      strconv.Itoa(reserveMillis),
	"MS_ALIVE":        strconv.Itoa(aliveMillis),
	"MS_LINGER":       strconv.Itoa(lingerMillis),
	"MS_ALIVE_LINGER": strconv.Itoa(aliveMillis + lingerMillis),
	"REFUSED_VERSION": "'" + codeVersion + "'",
	"REFUSED_TYPE":    "'" + codeType + "'",
	"REFUSED_BREAK":   "'" + codeBreak + "'",
}

// Errors of the scripts themselves begin with these codes.
const (
	codeVersion = "PADLOCKVERSION" // followed by the flag
	codeType    = "PADLOCKTYPE"    // followed by the type and the name of the key
	codeBreak   = "PADLOCKBREAK"   // followed by the name of the key
)

// speller replaces the words of scriptWords. If one word begins with another one, the longer word
// is tried first.
var speller = sync.OnceValue(func() *strings.Replacer {
	var pairs []string
	for _, word := range slices.Backward(slices.Sorted(maps.Keys(scriptWords))) {
		pairs = append(pairs, word, scriptWords[word])
	}
	return strings.NewReplacer(pairs...)
})

// spell replaces the words of scriptWords in a script. A test finds words of scripts that
// scriptWords lacks.
func spell(text string) string { return speller().Replace(text) }

// counted returns the length of a token, followed by the token. A note contains its token in the
// same form. The fast scripts get tokens in this form too, because Lua takes a microsecond to make
// it.
func counted(token string) string {
	n := len(token)
	return string([]byte{byte('0' + n/100), byte('0' + n/10%10), byte('0' + n%10)}) + token
}

// versionOf is the version of a note with this flag, or 0 if no version has it.
func versionOf(flag string) int {
	if len(flag) != 1 {
		return 0
	}
	switch c := flag[0] | 0x20; {
	case flag[0] == flagSimple || flag[0] == flagMore:
		return noteVersion
	case c >= 'b' && c <= 'z':
		return int(c-'a') + 1
	}
	return 0
}
