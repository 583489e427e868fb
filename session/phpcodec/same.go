package phpcodec

import "bytes"

// Same reports whether two serialised values are the same to PHP: the same
// bytes, but for floats, which PHP writes anew with other digits when its
// serialize_precision was changed.
func Same(a, b []byte) bool {
	if bytes.Equal(a, b) {
		return true
	}
	ca, errA := canonical(a)
	cb, errB := canonical(b)
	return errA == nil && errB == nil && bytes.Equal(ca, cb)
}

// canonical writes the floats of a value in one way.
func canonical(data []byte) ([]byte, error) {
	var out []byte
	last := 0
	s := &scanner{data: data, double: func(from, to int) {
		f, _ := parseFloat(string(data[from:to]))
		out = appendFloat(append(out, data[last:from]...), f)
		last = to
	}}
	if err := s.value(); err != nil {
		return nil, err
	}
	return append(out, data[last:]...), nil
}
