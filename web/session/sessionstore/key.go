package sessionstore

// Key is the key of a session in its store. It is hidden in a func, so that nothing which prints a
// value with a Key in it shows the key: a key of PHP has the id. The zero Key stands for none.
type Key struct{ text func() string }

// KeyOf hides the text of a key.
func KeyOf(text string) Key { return Key{func() string { return text }} }

// Text returns the key, or "" for the zero Key.
func (k Key) Text() string {
	if k.text == nil {
		return ""
	}
	return k.text()
}
