package phpcodec

import (
	"cmp"
	"encoding"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
)

// Marshal serialises v:
//
//   - Nil, booleans, integers, floats and strings become the same kinds of PHP values.
//   - A []byte and an encoding.TextMarshaler become strings.
//   - A slice becomes a list.
//   - A map with keys of strings or integers becomes an array with sorted keys.
//   - A struct becomes an array. Its keys are the names of the exported fields.
//   - An Array keeps its order. An Object and a Raw stay as they are.
//   - A pointer becomes the value that it points to.
//
// For everything else the error is ErrType. The tag `php:"name,omitempty"` gives a field another
// name, and leaves it out if it is zero. The tag `php:"-"` always leaves it out.
//
// An embedded struct is a field with the name of its type. If that type is not exported, its fields
// count as fields of the outer struct. For a struct without any visible field the error is ErrType,
// so that no value is lost silently.
func Marshal(v any) ([]byte, error) { return marshal(nil, reflect.ValueOf(v), 0) }

func marshal(b []byte, v reflect.Value, depth int) ([]byte, error) {
	if depth > MaxDepth {
		return nil, fmt.Errorf("%w: nested deeper than %d", ErrType, MaxDepth)
	}
	if !v.IsValid() {
		return append(b, "N;"...), nil
	}
	if own, done, err := marshalOwn(b, v, depth); done {
		return own, err
	}
	switch {
	case v.CanInt():
		return appendInt(b, v.Int()), nil
	case v.CanUint():
		if v.Uint() > math.MaxInt64 {
			return nil, fmt.Errorf("%w: %d is more than PHP's integers hold", ErrType, v.Uint())
		}
		return appendInt(b, int64(v.Uint())), nil
	case v.CanFloat():
		return append(appendFloat(append(b, "d:"...), v.Float()), ';'), nil
	}
	switch v.Kind() {
	case reflect.Bool:
		if v.Bool() {
			return append(b, "b:1;"...), nil
		}
		return append(b, "b:0;"...), nil
	case reflect.String:
		return appendString(b, v.String()), nil
	case reflect.Pointer:
		return marshal(b, v.Elem(), depth+1)
	case reflect.Interface:
		return marshal(b, v.Elem(), depth)
	case reflect.Slice, reflect.Array:
		return marshalList(b, v, depth)
	case reflect.Map:
		return marshalMap(b, v, depth)
	case reflect.Struct:
		return marshalStruct(b, v, depth)
	}
	return nil, fmt.Errorf("%w: %s", ErrType, v.Type())
}

// marshalOwn serialises values whose types are treated in a special way. isOwn reports whether v
// has such a type.
func marshalOwn(b []byte, v reflect.Value, depth int) (out []byte, isOwn bool, err error) {
	if !v.CanInterface() || (v.Kind() == reflect.Pointer || v.Kind() == reflect.Interface) && v.IsNil() {
		return nil, false, nil
	}
	switch x := v.Interface().(type) {
	case Object:
		return appendRaw(b, x.Raw)
	case Raw:
		return appendRaw(b, x)
	case []byte:
		return appendString(b, string(x)), true, nil
	case Array:
		out, err = marshalArray(b, x, depth)
		return out, true, err
	}
	m, ok := textMarshaler(v)
	if !ok {
		return nil, false, nil
	}
	text, err := m.MarshalText()
	return appendString(b, string(text)), true, err
}

// textMarshaler returns v as a TextMarshaler, if v's type or a pointer to that type has the method
// MarshalText.
func textMarshaler(v reflect.Value) (encoding.TextMarshaler, bool) {
	if m, ok := v.Interface().(encoding.TextMarshaler); ok {
		return m, true
	}
	if !reflect.PointerTo(v.Type()).Implements(reflect.TypeFor[encoding.TextMarshaler]()) {
		return nil, false
	}
	if !v.CanAddr() {
		copied := reflect.New(v.Type()).Elem()
		copied.Set(v)
		v = copied
	}
	return v.Addr().Interface().(encoding.TextMarshaler), true
}

func marshalArray(b []byte, a Array, depth int) ([]byte, error) {
	b = fmt.Appendf(b, "a:%d:{", len(a))
	seen := make(map[string]bool, len(a))
	for _, p := range a {
		key, err := keyText(reflect.ValueOf(p.Key))
		if err != nil {
			return nil, err
		}
		if seen[key] {
			return nil, fmt.Errorf("%w: an Array with key %q twice", ErrType, key)
		}
		seen[key] = true
		if b, err = marshal(appendKey(b, key), reflect.ValueOf(p.Value), depth+1); err != nil {
			return nil, err
		}
	}
	return append(b, '}'), nil
}

func appendRaw(b, raw []byte) ([]byte, bool, error) {
	s, err := wholeValue(raw)
	if err == nil && len(s.refs) > 0 {
		err = ErrReferences
	}
	return append(b, raw...), true, err
}

func marshalList(b []byte, v reflect.Value, depth int) ([]byte, error) {
	if v.Type().Elem().Kind() == reflect.Uint8 && v.Kind() == reflect.Slice {
		return appendString(b, string(v.Bytes())), nil
	}
	b = fmt.Appendf(b, "a:%d:{", v.Len())
	for i := range v.Len() {
		var err error
		if b, err = marshal(appendInt(b, int64(i)), v.Index(i), depth+1); err != nil {
			return nil, err
		}
	}
	return append(b, '}'), nil
}

func marshalMap(b []byte, v reflect.Value, depth int) ([]byte, error) {
	keys := v.MapKeys()
	if k := v.Type().Key().Kind(); k != reflect.String && !(k >= reflect.Int && k <= reflect.Uint64) {
		return nil, fmt.Errorf("%w: keys of %s", ErrType, v.Type())
	}
	slices.SortFunc(keys, func(x, y reflect.Value) int {
		switch {
		case x.CanInt():
			return cmp.Compare(x.Int(), y.Int())
		case x.CanUint():
			return cmp.Compare(x.Uint(), y.Uint())
		}
		return strings.Compare(x.String(), y.String())
	})
	b = fmt.Appendf(b, "a:%d:{", len(keys))
	for _, k := range keys {
		key, err := keyText(k)
		if err != nil {
			return nil, err
		}
		if b, err = marshal(appendKey(b, key), v.MapIndex(k), depth+1); err != nil {
			return nil, err
		}
	}
	return append(b, '}'), nil
}

func marshalStruct(b []byte, v reflect.Value, depth int) ([]byte, error) {
	fields, err := fieldsOf(v.Type())
	if err != nil {
		return nil, err
	}
	fields = slices.DeleteFunc(fields, func(f structField) bool { return f.omitEmpty && v.FieldByIndex(f.index).IsZero() })
	b = fmt.Appendf(b, "a:%d:{", len(fields))
	for _, f := range fields {
		if b, err = marshal(appendKey(b, f.name), v.FieldByIndex(f.index), depth+1); err != nil {
			return nil, err
		}
	}
	return append(b, '}'), nil
}
