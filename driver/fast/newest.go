package fast

import "strings"

// newestMark follows a name in the names of package newest, before "number", "waiting" or "last".
const newestMark = "\x1fnewest:"

// NewestName returns the name of a lock that package newest needs for a stored name: "number",
// "waiting", "last 0" or "last 1".
func NewestName(stored, what string) string { return stored + newestMark + what }

// SplitNewest returns the argument of the NewestName that made derived. If none made it, ok is false.
func SplitNewest(derived string) (stored string, ok bool) {
	at := strings.LastIndex(derived, newestMark)
	if at <= 0 {
		return "", false
	}
	return derived[:at], true
}
