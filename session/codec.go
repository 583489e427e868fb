package session

import (
	"bytes"
	"encoding/gob"
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"
)

// A Codec encodes single values. It must encode an integer as decimal text, so that a store can add
// to it. The text of an integer must decode into any integer type in which it fits. A Codec is safe
// for concurrent use.
type Codec interface {
	// Marshal encodes v.
	Marshal(v any) ([]byte, error)
	// Unmarshal decodes data into the variable that v points to.
	Unmarshal(data []byte, v any) error
}

// jsonCodec is the default codec.
type jsonCodec struct{}

func (jsonCodec) Marshal(v any) ([]byte, error)      { return json.Marshal(v) }
func (jsonCodec) Unmarshal(data []byte, v any) error { return json.Unmarshal(data, v) }

// Gob encodes with encoding/gob, each value with its own description of its type. Integers become
// decimal text. Decode only data that your own servers wrote, because gob is not made for hostile
// input.
func Gob() Codec { return gobCodec{} }

type gobCodec struct{}

// gobMark begins every value that is not an integer.
const gobMark = 'g'

func (gobCodec) Marshal(v any) ([]byte, error) {
	switch r := reflect.ValueOf(v); {
	case r.IsValid() && r.CanInt():
		return strconv.AppendInt(nil, r.Int(), 10), nil
	case r.IsValid() && r.CanUint():
		return strconv.AppendUint(nil, r.Uint(), 10), nil
	}
	b := bytes.NewBuffer([]byte{gobMark})
	err := gob.NewEncoder(b).Encode(v)
	return b.Bytes(), err
}

func (gobCodec) Unmarshal(data []byte, v any) error {
	if len(data) > 0 && data[0] == gobMark {
		return gob.NewDecoder(bytes.NewReader(data[1:])).Decode(v)
	}
	return setInteger(string(data), v)
}

// setInteger puts decimal text into the variable that v points to.
func setInteger(text string, v any) error {
	p := reflect.ValueOf(v)
	if p.Kind() != reflect.Pointer || p.IsNil() {
		return fmt.Errorf("session: decode into %T: it is no pointer", v)
	}
	switch e := p.Elem(); {
	case e.CanInt():
		n, err := strconv.ParseInt(text, 10, e.Type().Bits())
		e.SetInt(n)
		return err
	case e.CanUint():
		n, err := strconv.ParseUint(text, 10, e.Type().Bits())
		e.SetUint(n)
		return err
	case e.Kind() == reflect.Interface && e.NumMethod() == 0:
		n, err := strconv.ParseInt(text, 10, 64)
		e.Set(reflect.ValueOf(n))
		return err
	}
	return fmt.Errorf("session: the value is an integer, not %T", p.Elem().Interface())
}
