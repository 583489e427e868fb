package filestore

// Plan 9 has no numbers for its errors, so advise has no advice for these.
var tooManyFiles, readOnly, diskFull []error

// tooMany reports whether the limit of open files was reached. Plan 9 does not say so.
func tooMany(error) bool { return false }
