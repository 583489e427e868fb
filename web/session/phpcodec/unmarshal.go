package phpcodec

import (
	"encoding"
	"fmt"
	"math"
	"reflect"
	"strconv"
)

// Unmarshal decodes one serialised value into the variable that v points to. Marshal describes the
// form of the value. A variable of type any gets nil, or a bool, int64, float64, string, Array or
// Object. A float without a fraction may be decoded into an integer, an integer into a float, and
// null into the zero value of any type.
//
// An array can be decoded into a slice if its keys are 0, 1, 2, …. If the variable is a struct,
// keys without a field are ignored. The errors are ErrType, ErrSyntax and ErrReferences.
func Unmarshal(data []byte, v any) error {
	to := reflect.ValueOf(v)
	if to.Kind() != reflect.Pointer || to.IsNil() {
		return fmt.Errorf("%w: %T is no pointer", ErrType, v)
	}
	s, err := wholeValue(data)
	if err != nil {
		return err
	}
	if raw, ok := v.(*Raw); ok {
		*raw = append(Raw{}, data...)
		return nil
	}
	if len(s.refs) > 0 {
		return ErrReferences
	}
	return (&reader{scanner{data: data}}).into(to.Elem())
}

// reader decodes data that a scanner has checked before. So it does not check the syntax again.
type reader struct{ scanner }

func (r *reader) span() []byte {
	from := r.pos
	_ = r.value() // the data were scanned before
	return r.data[from:r.pos]
}

// r.into reads the next value into v.
func (r *reader) into(v reflect.Value) error {
	switch v.Interface().(type) {
	case Object:
		x, err := r.anyValue()
		o, ok := x.(Object)
		if err == nil && !ok && x != nil {
			err = misfit(x, v)
		}
		v.Set(reflect.ValueOf(o))
		return err
	case Raw:
		v.SetBytes(append([]byte{}, r.span()...))
		return nil
	case Array:
		x, err := r.anyValue()
		a, ok := x.(Array)
		if err == nil && !ok && x != nil {
			err = misfit(x, v)
		}
		v.Set(reflect.ValueOf(a))
		return err
	}
	if r.data[r.pos] == 'N' {
		r.span()
		v.SetZero()
		return nil
	}
	if t, ok := v.Addr().Interface().(encoding.TextUnmarshaler); ok && r.data[r.pos] == 's' {
		x, _ := r.anyValue()
		return t.UnmarshalText([]byte(x.(string)))
	}
	if v.Kind() == reflect.Pointer {
		if v.IsNil() {
			v.Set(reflect.New(v.Type().Elem()))
		}
		return r.into(v.Elem())
	}
	if k := v.Kind(); r.data[r.pos] == 'a' && (k == reflect.Slice || k == reflect.Array || k == reflect.Map || k == reflect.Struct) {
		return r.array(v)
	}
	x, err := r.anyValue()
	if err != nil {
		return err
	}
	return assign(v, x)
}

func misfit(x any, v reflect.Value) error {
	return fmt.Errorf("%w: PHP's %T into %s", ErrType, x, v.Type())
}

// r.anyValue reads a value of any type.
func (r *reader) anyValue() (any, error) {
	kind := r.data[r.pos]
	switch kind {
	case 'a':
		return r.anyArray()
	case 'O', 'C', 'E':
		from := r.pos
		r.pos += 2
		class, _ := r.quoted()
		r.pos = from
		return Object{string(class), append([]byte{}, r.span()...)}, nil
	}
	raw := r.span()
	if kind == 'N' {
		return nil, nil
	}
	word := string(raw[2 : len(raw)-1])
	switch kind {
	case 'b':
		return word == "1", nil
	case 'i':
		n, _ := parseInt(word)
		return n, nil
	case 'd':
		f, _ := parseFloat(word)
		return f, nil
	}
	s := scanner{data: raw, pos: 2}
	text, err := s.quoted()
	return string(text), err
}

// anyArray reads an array. If a key is there twice, the later value counts, as in PHP. PHP writes
// no such arrays.
func (r *reader) anyArray() (Array, error) {
	a := Array{}
	var index map[string]int // nil while the keys are 0, 1, 2, …
	err := r.eachEntry(func(key string) error {
		v, err := r.anyValue()
		if index == nil && key != strconv.Itoa(len(a)) {
			index = make(map[string]int)
			for i := range a {
				index[strconv.Itoa(i)] = i
			}
		}
		if i, twice := index[key]; twice {
			a[i].Value = v
			return err
		}
		if index != nil {
			index[key] = len(a)
		}
		a = append(a, Pair{keyOf(key), v})
		return err
	})
	return a, err
}

// r.eachEntry reads an array. For each key it calls f, which reads the value that follows.
func (r *reader) eachEntry(f func(key string) error) error {
	r.pos += 2
	n, err := r.count()
	if err != nil {
		return err
	}
	r.pos++
	for range n {
		key, err := r.key()
		if err == nil {
			err = f(key)
		}
		if err != nil {
			return err
		}
	}
	r.pos++
	return nil
}

func keyOf(key string) any {
	if isInteger(key) {
		n, _ := strconv.ParseInt(key, 10, 64)
		return n
	}
	return key
}

func (r *reader) array(v reflect.Value) error {
	switch v.Kind() {
	case reflect.Map:
		return r.mapInto(v)
	case reflect.Struct:
		fields, err := fieldsOf(v.Type())
		if err != nil {
			return err
		}
		v.SetZero()
		byName := make(map[string][]int)
		for _, f := range fields {
			byName[f.name] = f.index
		}
		return r.eachEntry(func(key string) error {
			if i, ok := byName[key]; ok {
				return r.into(v.FieldByIndex(i))
			}
			r.span()
			return nil
		})
	}
	i := 0
	if v.SetZero(); v.Kind() == reflect.Slice {
		v.Set(reflect.MakeSlice(v.Type(), 0, 0))
	}
	return r.eachEntry(func(key string) error {
		if key != strconv.Itoa(i) {
			return fmt.Errorf("%w: an array with key %q into %s", ErrType, key, v.Type())
		}
		if v.Kind() == reflect.Array {
			if i >= v.Len() {
				return fmt.Errorf("%w: more than %d elements", ErrType, v.Len())
			}
		} else {
			v.Set(reflect.Append(v, reflect.Zero(v.Type().Elem())))
		}
		i++
		return r.into(v.Index(i - 1))
	})
}

func (r *reader) mapInto(v reflect.Value) error {
	v.Set(reflect.MakeMap(v.Type()))
	return r.eachEntry(func(text string) error {
		key := reflect.New(v.Type().Key()).Elem()
		if err := setKey(key, text); err != nil {
			return err
		}
		value := reflect.New(v.Type().Elem()).Elem()
		if err := r.into(value); err != nil {
			return err
		}
		v.SetMapIndex(key, value)
		return nil
	})
}

// setKey converts phpKey, a key of a PHP array, to a key of a Go map. It stores the result in the
// argument key, which has the type of the map's keys.
func setKey(key reflect.Value, phpKey string) error {
	if key.CanUint() {
		if n, err := strconv.ParseUint(phpKey, 10, 64); err == nil && !key.OverflowUint(n) && strconv.FormatUint(n, 10) == phpKey {
			key.SetUint(n)
			return nil
		}
	}
	if key.Kind() == reflect.String {
		key.SetString(phpKey)
		return nil
	}
	return assign(key, keyOf(phpKey))
}

// assign puts a scalar into v if it fits without loss.
func assign(v reflect.Value, x any) error {
	if v.Kind() == reflect.Interface && v.NumMethod() == 0 {
		v.Set(reflect.ValueOf(x))
		return nil
	}
	if f, ok := x.(float64); ok && (v.CanInt() || v.CanUint()) && f == math.Trunc(f) && math.Abs(f) < 1<<53 {
		x = int64(f)
	}
	switch x := x.(type) {
	case bool:
		if v.Kind() == reflect.Bool {
			v.SetBool(x)
			return nil
		}
	case string:
		if v.Kind() == reflect.String {
			v.SetString(x)
			return nil
		}
		if v.Kind() == reflect.Slice && v.Type().Elem().Kind() == reflect.Uint8 {
			v.SetBytes([]byte(x))
			return nil
		}
	case int64:
		switch {
		case v.CanInt() && !v.OverflowInt(x):
			v.SetInt(x)
			return nil
		case v.CanUint() && x >= 0 && !v.OverflowUint(uint64(x)):
			v.SetUint(uint64(x))
			return nil
		case v.CanFloat():
			v.SetFloat(float64(x))
			return nil
		}
	case float64:
		if v.CanFloat() {
			v.SetFloat(x)
			return nil
		}
	}
	return misfit(x, v)
}
