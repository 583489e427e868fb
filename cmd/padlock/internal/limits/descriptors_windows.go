package limits

// Descriptors shows that n more files can be opened: there is no such limit.
func Descriptors(int) error { return nil }
