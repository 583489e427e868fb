package history

// Shared reports whether the store keeps a history, so that other machines see it.
func (l *Log) Shared() bool { return l.store != nil }
