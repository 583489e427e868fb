package padlock

// callMemory is memory that the attempts of one AcquireAll or DoAll share: one slice for all holds,
// and one string for all tokens. With separate memory for each hold and token, a call for three
// names would take a twentieth longer.
type callMemory struct {
	holds  []hold // in the order in which they were taken; its capacity is for all names
	tokens string // the tokens that nextToken has not returned yet
}

// usualNames is the largest number of names for which a call has enough room on its stack. For more
// names, the call allocates memory.
const usualNames = 4

// begin allocates the holds and makes the tokens for n names.
func (s *callMemory) begin(l *Locker, n int) {
	s.holds = make([]hold, 0, n)
	l.mu.Lock()
	s.tokens = l.newTokens(n)
	l.mu.Unlock()
}

// nextHold returns the memory for the next hold. If s is nil, the hold has its own memory.
func (s *callMemory) nextHold() *hold {
	if s == nil {
		return new(hold)
	}
	n := len(s.holds)
	return &s.holds[:n+1][n]
}

// innermost returns the hold that was taken last, or nil. s may be nil.
func (s *callMemory) innermost() *hold {
	if s == nil || len(s.holds) == 0 {
		return nil
	}
	return &s.holds[len(s.holds)-1]
}

// nextToken returns the token for the next hold, or "" if s is nil.
func (s *callMemory) nextToken() (token string) {
	if s != nil {
		token, s.tokens = s.tokens[:tokenLength], s.tokens[tokenLength:]
	}
	return token
}

// keepHold makes the hold that nextHold has just returned the last one of s.holds. It is called
// when the lock has been taken.
func (s *callMemory) keepHold() { s.holds = s.holds[:len(s.holds)+1] }
