package padlock

// secret is a text that nothing can print by reflection: fmt, loggers, encoders and debug printers
// show a func as an address and cannot look inside. A method that hides a text, such as Format,
// works only where the printer calls it, and printers call no method of a value in an unexported
// field. Every token that can be reached from a Locker, a Lock or a Key is a secret. A nil secret
// is the empty text.
type secret func() string

func hide(text string) secret { return func() string { return text } }

func (s secret) reveal() string {
	if s == nil {
		return ""
	}
	return s()
}
