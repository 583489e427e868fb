package memcachestore

// KeyOf returns the key of a name.
func KeyOf(s *Store, name string) string { return s.keyFor(name).text }
