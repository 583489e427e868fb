package padlock

// several is what the attempts of one AcquireAll or DoAll share: one piece of memory for all holds,
// and one for all tokens. With separate memory for each hold and token, a call for three names
// would take a twentieth longer.
type several struct {
	holds  []hold // in the order in which they were taken; its capacity is for all names
	tokens string // the tokens of the names that have none yet
}

// usualNames is how many names a call may have before it needs more memory than it has on the
// stack.
const usualNames = 4

// begin makes the memory and the tokens for n names.
func (s *several) begin(l *Locker, n int) {
	s.holds = make([]hold, 0, n)
	l.mu.Lock()
	s.tokens = l.newTokens(n)
	l.mu.Unlock()
}

// nextHold returns the memory for the next hold. If s is nil, the hold has its own memory.
func (s *several) nextHold() *hold {
	if s == nil {
		return new(hold)
	}
	n := len(s.holds)
	return &s.holds[:n+1][n]
}

// innermost returns the hold that was taken last, or nil. s may be nil.
func (s *several) innermost() *hold {
	if s == nil || len(s.holds) == 0 {
		return nil
	}
	return &s.holds[len(s.holds)-1]
}

// nextToken returns the token for the next hold, or "" if s is nil.
func (s *several) nextToken() (token string) {
	if s != nil {
		token, s.tokens = s.tokens[:tokenLength], s.tokens[tokenLength:]
	}
	return token
}

// added notes that the hold that nextHold returned was taken.
func (s *several) added() { s.holds = s.holds[:len(s.holds)+1] }
