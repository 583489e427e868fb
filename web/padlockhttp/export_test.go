package padlockhttp

// Len returns how many answers are in memory.
func (m *Memory) Len() int { return len(m.kept) }
