package limits

// Descriptors checks that n more files can be opened. Windows has no limit for that.
func Descriptors(int) error { return nil }
