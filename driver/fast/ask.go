package fast

import "strings"

// askMark follows a name in the name of its questions: see AskName. <US>, the byte 0x1F, is also in the
// names of slots.
const askMark = "\x1fask"

// AskName returns the name of the lock that a question to the holder of a stored name is kept as. Its
// holder is who asks, and its label is the question. Stores treat it as they treat other names.
func AskName(stored string) string { return stored + askMark }

// SplitAsk returns the argument of the AskName that made derived. If none made it, ok is false.
func SplitAsk(derived string) (stored string, ok bool) {
	stored, ok = strings.CutSuffix(derived, askMark)
	return stored, ok && stored != ""
}
