package phpcodec

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
)

type structField struct {
	name      string
	index     []int // for FieldByIndex
	omitEmpty bool
}

// fieldsOf lists the fields of a struct that Marshal writes. It returns ErrType if data would be
// lost: the struct has fields but none is visible, or two fields have the same name.
func fieldsOf(t reflect.Type) ([]structField, error) {
	fields, seen, err := fieldsIn(t, nil)
	if err != nil {
		return nil, err
	}
	if !seen && t.NumField() > 0 {
		return nil, fmt.Errorf("%w: %s has no exported field and no MarshalText", ErrType, t)
	}
	// As in Go, a field hides fields of the same name in embedded structs.
	depth := make(map[string]int)
	for _, f := range fields {
		if d, ok := depth[f.name]; !ok || len(f.index) < d {
			depth[f.name] = len(f.index)
		}
	}
	fields = slices.DeleteFunc(fields, func(f structField) bool { return len(f.index) > depth[f.name] })
	if len(fields) > len(depth) {
		return nil, fmt.Errorf("%w: two fields of %s have one name", ErrType, t)
	}
	return fields, nil
}

// fieldsIn lists the fields of the struct t and of the structs that it embeds. path is the index of
// t in the outermost struct. anyField reports whether t has a visible field. A field that a tag
// leaves out counts, too.
func fieldsIn(t reflect.Type, path []int) (fields []structField, anyField bool, err error) {
	for i := range t.NumField() {
		f := t.Field(i)
		index := append(slices.Clone(path), i)
		name, options, _ := strings.Cut(f.Tag.Get("php"), ",")
		switch {
		case name == "-":
			anyField = true
		case f.IsExported():
			anyField = true
			if name == "" {
				name = f.Name
			}
			fields = append(fields, structField{name, index, options == "omitempty"})
		case f.Anonymous && f.Type.Kind() == reflect.Struct && name == "":
			inner, any, err := fieldsIn(f.Type, index)
			if err != nil {
				return nil, false, err
			}
			fields, anyField = append(fields, inner...), anyField || any
		case f.Anonymous && hasFields(f.Type):
			return nil, false, fmt.Errorf("%w: %s embeds %s, which is not exported, by a pointer or with a name", ErrType, t, f.Type)
		}
	}
	return fields, anyField, nil
}

// hasFields reports whether t is a struct, or a pointer to one.
func hasFields(t reflect.Type) bool {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t.Kind() == reflect.Struct
}
