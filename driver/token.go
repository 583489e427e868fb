package driver

// Token is the secret of a hold. Nothing that prints a value shows a Token in it. The zero Token
// stands for none.
type Token struct {
	// Printers cannot look into a func. A method that hides a text, such as Format, works only
	// where the printer calls it, and printers call no method of a value in an unexported field.
	text func() string
}

// TokenOf hides the text of a token.
func TokenOf(text string) Token { return Token{func() string { return text }} }

// Text returns the secret, or "" for the zero Token.
func (t Token) Text() string {
	if t.text == nil {
		return ""
	}
	return t.text()
}

// IsZero reports whether t is the zero Token.
func (t Token) IsZero() bool { return t.text == nil }
