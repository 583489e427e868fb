package stampede

import (
	"errors"
	"fmt"
)

// Codec encodes values to bytes and decodes them. It is safe for concurrent use. Every
// session.Codec is a Codec.
type Codec interface {
	// Marshal encodes v.
	Marshal(v any) ([]byte, error)
	// Unmarshal decodes data into the variable that v points to.
	Unmarshal(data []byte, v any) error
}

// encode returns non-nil bytes or an error, because nil bytes mean that no value is kept.
func encode(c Codec, v any) ([]byte, error) {
	switch v := v.(type) {
	case []byte:
		return append([]byte{}, v...), nil
	case string:
		return append([]byte{}, v...), nil
	}
	data, err := c.Marshal(v)
	if err == nil && data == nil {
		data = []byte{}
	}
	return data, err
}

func decode[T any](c Codec, data []byte) (T, error) {
	var v T
	switch p := any(&v).(type) {
	case *[]byte:
		*p = append([]byte{}, data...)
		return v, nil
	case *string:
		*p = string(data)
		return v, nil
	}
	if err := c.Unmarshal(data, &v); err != nil {
		return v, fmt.Errorf("stampede: the value that is kept does not fit %T: %w", v, errors.Join(errDecode, err))
	}
	return v, nil
}

var errDecode = errors.New("cannot decode")
