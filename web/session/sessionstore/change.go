package sessionstore

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
)

// fieldSet is a session to which the ops of a Change are applied.
type fieldSet interface {
	Get(key string) (value []byte, ok bool)
	Set(key string, value []byte) error
	Delete(key string) error
}

// adder adds delta to an encoded integer. old is nil if there is no integer yet.
type adder func(old []byte, delta int64) ([]byte, error)

// apply applies ops in order. After an error the fields must not be used any more.
func apply(fields fieldSet, ops []Op, add adder) ([][]byte, error) {
	values := make([][]byte, len(ops))
	for i, op := range ops {
		var err error
		switch op.Kind {
		case OpPut:
			err = fields.Set(op.Key, op.Value)
		case OpDelete:
			err = fields.Delete(op.Key)
		case OpTake:
			if v, ok := fields.Get(op.Key); ok {
				values[i] = v
				err = fields.Delete(op.Key)
			}
		case OpIncr:
			old, ok := fields.Get(op.Key)
			if ok && old == nil {
				old = []byte{}
			}
			var sum []byte
			if sum, err = add(old, op.Delta); err == nil {
				values[i] = sum
				err = fields.Set(op.Key, sum)
			}
		}
		if err != nil {
			return nil, err
		}
	}
	return values, nil
}

// checkSize returns ErrTooLarge if a change would make a session larger than limit. All sizes are
// in bytes. A session that is already too large may shrink.
func checkSize(sizeBefore, sizeAfter, limit int) error {
	if limit == 0 || sizeAfter <= limit || sizeAfter <= sizeBefore {
		return nil
	}
	return fmt.Errorf("%w: it would have %d bytes, at most %d are allowed", ErrTooLarge, sizeAfter, limit)
}

// checkUnchanged returns a *ConflictError with the keys that differ.
func checkUnchanged(conditions []Condition, get func(string) ([]byte, bool), same func(a, b []byte) bool) error {
	var changed []string
	for _, c := range conditions {
		v, ok := get(c.Key)
		if ok == c.Absent || ok && !same(v, c.Value) {
			changed = append(changed, c.Key)
		}
	}
	if changed == nil {
		return nil
	}
	slices.Sort(changed)
	return &ConflictError{slices.Compact(changed)}
}

// addDecimal returns the sum of old and delta. Both old and the sum are decimal text. If old is
// nil, it counts as 0.
func addDecimal(old []byte, delta int64) ([]byte, error) {
	var n int64
	if old != nil {
		var err error
		n, err = strconv.ParseInt(string(old), 10, 64)
		if err != nil || !bytes.Equal(old, strconv.AppendInt(nil, n, 10)) {
			return nil, ErrNotNumber
		}
	}
	sum, ok := addInt64(n, delta)
	if !ok {
		return nil, ErrNotNumber
	}
	return strconv.AppendInt(nil, sum, 10), nil
}

// addInt64 returns the sum and reports whether it fits.
func addInt64(a, b int64) (int64, bool) {
	sum := a + b
	return sum, (sum > a) == (b > 0)
}
