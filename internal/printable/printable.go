// Package printable escapes foreign texts before they are shown to a person. A name or an error may
// hold bytes of any program: control characters that a terminal obeys, characters that change the
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

// Name returns a name with the escapes of Go for all characters that are not printable. If it has
// an escape, its backslashes are doubled.
func Name(s string) string {
	if Is(s) {
		return s
	}
	quoted := strconv.Quote(s)
	return strings.ReplaceAll(quoted[1:len(quoted)-1], `\"`, `"`)
}

// Message escapes a message. It is like Name, but leaves backslashes alone, because a message often
// quotes a name or a path already.
func Message(s string) string {
	if Is(s) {
		return s
	}
	return strings.ReplaceAll(Name(s), `\\`, `\`)
}
