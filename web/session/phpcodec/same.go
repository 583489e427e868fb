package phpcodec

import "bytes"

// Same reports whether two serialised values are the same to PHP. They may differ only in the
// digits of floats: if serialize_precision was changed, PHP writes the same float with other
// digits.
func Same(a, b []byte) bool {
	if bytes.Equal(a, b) {
		return true
	}
	ca, errA := canonical(a)
	cb, errB := canonical(b)
	return errA == nil && errB == nil && bytes.Equal(ca, cb)
}

// canonical writes all floats of a value in the same format.
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
