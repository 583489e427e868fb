// Package printable escapes texts of other programs before they are shown to a person. A name or an
// error may contain any bytes: control characters that a terminal obeys, characters that change the
// direction of text, and bytes that are not UTF-8.
package printable

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Is reports whether s is UTF-8 and has printable characters only.
func Is(s string) bool {
	return utf8.ValidString(s) && strings.IndexFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) < 0
}

// Name makes s safe to print. It replaces each character that cannot be printed by an escape
// sequence, as strconv.Quote does. If there is such a character, Name also doubles all backslashes
// of s. Otherwise it returns s unchanged.
func Name(s string) string {
	if Is(s) {
		return s
	}
	quoted := strconv.Quote(s)
	return strings.ReplaceAll(quoted[1:len(quoted)-1], `\"`, `"`)
}

// Message escapes a message. It is like Name, but does not double backslashes, because a message
// often contains a quoted name or path, in which they are already doubled.
func Message(s string) string {
	if Is(s) {
		return s
	}
	return strings.ReplaceAll(Name(s), `\\`, `\`)
}

// Cut shortens s to at most n bytes, and cuts between two characters.
func Cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for i := n; i >= max(0, n-utf8.UTFMax+1); i-- {
		if utf8.RuneStart(s[i]) {
			return s[:i]
		}
	}
	return s[:n] // not UTF-8
}
