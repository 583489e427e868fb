package limits

// Descriptors checks that n more files can be opened. Windows has no such limit.
func Descriptors(int) error { return nil }
