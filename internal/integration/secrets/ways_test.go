package secrets

import (
	"bytes"
	"encoding/base64"
	"encoding/gob"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"log/slog"
	"reflect"
	"strings"
)

// exported and hidden are structs that have a value in a field.
type exported struct{ X any }
type hidden struct{ x any }

// nestings returns v, and values in which v lies.
func nestings(v any) map[string]any {
	p := reflect.New(reflect.TypeOf(v))
	p.Elem().Set(reflect.ValueOf(v))
	all := map[string]any{
		"value": v, "pointer": p.Interface(), "exported field": exported{v}, "unexported field": hidden{v},
		"pointer in an unexported field": hidden{p.Interface()}, "pointer to a struct": &hidden{v},
		"slice": []any{v}, "map value": map[string]any{"k": v}, "interface": any(&v),
		"deep": []any{map[int]any{1: &hidden{exported{v}}}},
	}
	if reflect.TypeOf(v).Comparable() {
		all["map key"] = map[any]int{v: 1}
	}
	return all
}

// ways print or encode a value. An error counts as printed, because callers print it.
var ways = map[string]func(out *bytes.Buffer, v any) error{
	"fmt": func(out *bytes.Buffer, v any) error {
		for _, flag := range []string{"", "+", "#", "+#", " ", "# "} {
			for _, verb := range "vsqxXdobcUeEfFgGptT" {
				fmt.Fprintf(out, "%"+flag+string(verb)+"\n", v)
			}
		}
		return nil
	},
	"slog text": func(out *bytes.Buffer, v any) error {
		slog.New(slog.NewTextHandler(out, nil)).Info("m", "v", v)
		return nil
	},
	"slog JSON": func(out *bytes.Buffer, v any) error {
		slog.New(slog.NewJSONHandler(out, nil)).Info("m", "v", v, slog.Group("g", "v", v))
		return nil
	},
	"json":   func(out *bytes.Buffer, v any) error { return json.NewEncoder(out).Encode(v) },
	"xml":    func(out *bytes.Buffer, v any) error { return xml.NewEncoder(out).Encode(v) },
	"gob":    func(out *bytes.Buffer, v any) error { return gob.NewEncoder(out).Encode(v) },
	"walker": func(out *bytes.Buffer, v any) error { walk(out, reflect.ValueOf(v), map[place]bool{}); return nil },
}

// shown returns the ways in which v, alone or inside another value, shows one of the secrets.
func shown(secrets []string, v any) (found []string) {
	var forms []string
	for _, s := range secrets {
		forms = append(forms, formsOf(s)...)
	}
	for how, nested := range nestings(v) {
		for way, write := range ways {
			var out bytes.Buffer
			if err := write(&out, nested); err != nil {
				fmt.Fprint(&out, err)
			}
			for _, form := range forms {
				if i := bytes.Index(out.Bytes(), []byte(form)); i >= 0 {
					found = append(found, fmt.Sprintf("%s, %s: …%.120q", how, way, out.Bytes()[max(0, i-60):]))
					break
				}
			}
		}
	}
	return found
}

// formsOf returns the texts that betray secret: itself, in hexadecimal digits, as the numbers of its
// bytes, and in base64 at each of the three offsets.
func formsOf(secret string) []string {
	forms := []string{
		secret, fmt.Sprintf("%x", secret), fmt.Sprintf("%X", secret), fmt.Sprintf("% x", secret), fmt.Sprintf("% X", secret),
		strings.Trim(fmt.Sprint([]byte(secret)), "[]"),
	}
	for offset := range 3 {
		text := base64.RawStdEncoding.EncodeToString([]byte(strings.Repeat("x", offset) + secret))
		forms = append(forms, text[2*offset:len(text)-3])
	}
	return forms
}

type place struct {
	at  uintptr
	typ reflect.Type
}

// walk writes every text to which v leads, through unexported fields and pointers, as debug printers
// do. It does not look into stores that keep the locks in memory: the tokens are their data.
func walk(out *bytes.Buffer, v reflect.Value, seen map[place]bool) {
	switch v.Kind() {
	case reflect.String:
		fmt.Fprintln(out, v.String())
	case reflect.Interface:
		walk(out, v.Elem(), seen)
	case reflect.Pointer:
		at := place{v.Pointer(), v.Type()}
		if v.IsNil() || seen[at] || isMemory(v.Type()) {
			return
		}
		seen[at] = true
		walk(out, v.Elem(), seen)
	case reflect.Struct:
		for i := range v.NumField() {
			walk(out, v.Field(i), seen)
		}
	case reflect.Map:
		at := place{v.Pointer(), v.Type()}
		if seen[at] {
			return
		}
		seen[at] = true
		for i := v.MapRange(); i.Next(); {
			walk(out, i.Key(), seen)
			walk(out, i.Value(), seen)
		}
	case reflect.Slice, reflect.Array:
		if v.Kind() == reflect.Slice && v.Type().Elem().Kind() == reflect.Uint8 {
			fmt.Fprintln(out, string(v.Bytes()))
			return
		}
		for i := range v.Len() {
			walk(out, v.Index(i), seen)
		}
	}
}
