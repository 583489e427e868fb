package gorillastore

import (
	"bytes"
	"encoding/gob"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/padlock-go/padlock/web/session/sessionstore"
)

// An edit changes one key of a session.
type edit struct {
	key   any
	field string // the key as the store knows it
	was   []byte // the value that the request loaded; nil if there was none
	raw   []byte // the new value; nil to delete the key

	merged bool // raw is not what the request has put
}

// encode encodes a value together with its key, because a key may have any type.
func encode(key, value any) ([]byte, error) {
	var text bytes.Buffer
	if err := gob.NewEncoder(&text).Encode(map[any]any{key: value}); err != nil {
		return nil, fmt.Errorf("value of %v: %w", key, err)
	}
	return text.Bytes(), nil
}

// decode decodes all values of a session.
func decode(fields map[string][]byte) (map[any]any, error) {
	values := make(map[any]any, len(fields))
	for field, raw := range fields {
		if err := gob.NewDecoder(bytes.NewReader(raw)).Decode(&values); err != nil {
			return nil, fmt.Errorf("gorillastore: value of %q: %w", field, err)
		}
	}
	return values, nil
}

// fieldOf returns the key for the store. A string stands for itself. Other keys begin with a NUL
// byte and their type.
func fieldOf(key any) (string, error) {
	if key == nil {
		return "", fmt.Errorf("%w: it is nil", sessionstore.ErrKey)
	}
	field, ok := key.(string)
	if !ok || field == "" || strings.HasPrefix(field, "\x00") {
		field = fmt.Sprintf("\x00%s %T %#v", reflect.TypeOf(key).PkgPath(), key, key)
	}
	if len(field) > sessionstore.MaxKey {
		return "", fmt.Errorf("%w: it has more than %d bytes", sessionstore.ErrKey, sessionstore.MaxKey)
	}
	return field, nil
}

// compare returns the edits that lead from the stored fields to values. The fields are decoded once
// more, because the program may have changed the values that it got in place.
func compare(before map[string][]byte, values map[any]any) ([]edit, error) {
	old, err := decode(before)
	if err != nil {
		return nil, err
	}
	fields := make(map[string]bool, len(values))
	var edits []edit
	for key, value := range values {
		field, err := fieldOf(key)
		if err != nil {
			return nil, err
		}
		if fields[field] {
			return nil, fmt.Errorf("%w: two keys are both %q", sessionstore.ErrKey, field)
		}
		fields[field] = true
		if was, had := old[key]; had && reflect.DeepEqual(was, value) {
			continue
		}
		raw, err := encode(key, value)
		if err != nil {
			return nil, err
		}
		edits = append(edits, edit{key: key, field: field, was: before[field], raw: raw})
	}
	for key := range old {
		if field, err := fieldOf(key); err == nil && !fields[field] {
			edits = append(edits, edit{key: key, field: field, was: before[field]})
		}
	}
	return edits, nil
}

// ops returns the edits for the store. Each of them counts as read: what another request has stored
// meanwhile is never overwritten.
func ops(edits []edit) (all []sessionstore.Op, unchanged []sessionstore.Condition) {
	for _, e := range edits {
		op := sessionstore.Op{Kind: sessionstore.OpPut, Key: e.field, Value: e.raw}
		if e.raw == nil {
			op.Kind = sessionstore.OpDelete
		}
		all = append(all, op)
		unchanged = append(unchanged, sessionstore.Condition{Key: e.field, Absent: e.was == nil, Value: e.was})
	}
	return all, unchanged
}

// apply returns the fields after the edits.
func apply(edits []edit, fields map[string][]byte) map[string][]byte {
	after := make(map[string][]byte, len(fields))
	maps.Copy(after, fields)
	for _, e := range edits {
		if e.raw == nil {
			delete(after, e.field)
		} else {
			after[e.field] = e.raw
		}
	}
	return after
}

// show puts the values that merge has made into the values that the program sees.
func show(edits []edit, values map[any]any) error {
	for _, e := range edits {
		switch {
		case !e.merged:
		case e.raw == nil:
			delete(values, e.key)
		default:
			if err := gob.NewDecoder(bytes.NewReader(e.raw)).Decode(&values); err != nil {
				return err
			}
		}
	}
	return nil
}

// merge returns the edits for a session that now has these fields. Keys that no other request has
// changed stay as they are. For the others, both requests must have appended to a list, or taken
// what they saw of it. Otherwise merge returns false.
func merge(edits []edit, now map[string][]byte) ([]edit, bool) {
	edits = slices.Clone(edits)
	for i, e := range edits {
		if bytes.Equal(e.was, now[e.field]) {
			continue
		}
		merged, ok := mergeLists(listOf(e.key, e.was), listOf(e.key, now[e.field]), listOf(e.key, e.raw))
		if !ok {
			return nil, false
		}
		edits[i].was, edits[i].raw, edits[i].merged = now[e.field], nil, true
		if len(merged) > 0 {
			raw, err := encode(e.key, merged)
			if err != nil {
				return nil, false
			}
			edits[i].raw = raw
		}
	}
	return edits, true
}

// A list is a value of the type that gorilla/sessions uses for flash messages. A value of another
// type is no list; an absent value is an empty list.
type list struct {
	items []any
	is    bool
}

func listOf(key any, raw []byte) list {
	if raw == nil {
		return list{nil, true}
	}
	values, err := decode(map[string][]byte{"": raw})
	items, is := values[key].([]any)
	return list{items, is && err == nil}
}

// mergeLists returns what two requests together have made of a list. was is the list that this
// request loaded, now is the list that the other request has stored, and want is the list that this
// request wants to store.
func mergeLists(was, now, want list) ([]any, bool) {
	n := len(was.items)
	switch {
	case !was.is || !now.is || !want.is:
		return nil, false
	case startsWith(want.items, was.items): // this request appended; the other one did anything
		return slices.Concat(now.items, want.items[n:]), true
	case len(want.items) == 0 && startsWith(now.items, was.items): // this request took all that it saw
		return now.items[n:], true
	}
	return nil, false
}

func startsWith(items, prefix []any) bool {
	return len(items) >= len(prefix) && slices.EqualFunc(items[:len(prefix)], prefix, func(a, b any) bool { return reflect.DeepEqual(a, b) })
}
