package phpcodec

import (
	"fmt"
	"reflect"
	"strconv"
)

func appendString(b []byte, s string) []byte {
	b = strconv.AppendInt(append(b, "s:"...), int64(len(s)), 10)
	return append(append(append(b, `:"`...), s...), `";`...)
}

func appendInt(b []byte, n int64) []byte {
	return append(strconv.AppendInt(append(b, "i:"...), n, 10), ';')
}

// appendKey writes the key of an array element. The text of an integer becomes an integer key, as
// in PHP's arrays.
func appendKey(b []byte, key string) []byte {
	if isInteger(key) {
		return append(append(append(b, "i:"...), key...), ';')
	}
	return appendString(b, key)
}

// isInteger reports whether PHP turns a key into an integer.
func isInteger(key string) bool {
	n, err := strconv.ParseInt(key, 10, 64)
	return err == nil && strconv.FormatInt(n, 10) == key
}

// keyText returns an array's key as text. It looks at the kind of the key's type and calls no
// methods of the key.
func keyText(k reflect.Value) (string, error) {
	switch {
	case k.Kind() == reflect.String:
		return k.String(), nil
	case k.IsValid() && k.CanInt():
		return strconv.FormatInt(k.Int(), 10), nil
	case k.IsValid() && k.CanUint():
		return strconv.FormatUint(k.Uint(), 10), nil
	}
	return "", fmt.Errorf("%w: a key that is no string and no integer", ErrType)
}
