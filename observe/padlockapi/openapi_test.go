package padlockapi

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/driver/fast"
)

// schema is what the tests need of a schema of the document.
type schema struct {
	Ref        string            `json:"$ref"`
	Type       string            `json:"type"`
	Properties map[string]schema `json:"properties"`
	Required   []string          `json:"required"`
	Additional *bool             `json:"additionalProperties"`
	Items      *schema           `json:"items"`
	Enum       []string          `json:"enum"`
	MaxLength  int               `json:"maxLength"`
	MinLength  int               `json:"minLength"`
	Maximum    int64             `json:"maximum"`
	OneOf      []schema          `json:"oneOf"`
}

type content map[string]struct {
	Schema schema `json:"schema"`
}

type document struct {
	OpenAPI string `json:"openapi"`
	Paths   map[string]map[string]struct {
		RequestBody struct {
			Content content `json:"content"`
		} `json:"requestBody"`
		Responses map[string]struct {
			Content content `json:"content"`
		} `json:"responses"`
	} `json:"paths"`
	Components struct {
		Schemas map[string]schema `json:"schemas"`
	} `json:"components"`
}

var doc = func() (d document) {
	if err := json.Unmarshal(openAPI, &d); err != nil {
		panic(err)
	}
	return d
}()

func (s schema) resolve() schema {
	if name, ok := strings.CutPrefix(s.Ref, "#/components/schemas/"); ok {
		return doc.Components.Schemas[name]
	}
	return s
}

// checkAnswer fails the test if the document does not describe the answer.
func checkAnswer(t *testing.T, path string, r *http.Request, a answer) {
	t.Helper()
	op, ok := doc.Paths[path]["post"]
	if !ok || r.Method != http.MethodPost {
		return
	}
	kind := a.head.Get("Content-Type")
	media, ok := op.Responses[fmt.Sprint(a.status)].Content[kind]
	if !ok {
		t.Errorf("%s: the document has no status %d with %s", path, a.status, kind)
		return
	}
	if wrong := media.Schema.check(a.fields); wrong != "" {
		t.Errorf("%s, status %d: %s in %s", path, a.status, wrong, a.text)
	}
}

// check returns what is wrong with a value, or "".
func (s schema) check(value any) string {
	s = s.resolve()
	switch v := value.(type) {
	case map[string]any:
		for key, value := range v {
			property, ok := s.Properties[key]
			if !ok {
				return "the unknown field " + key
			}
			if wrong := property.check(value); wrong != "" {
				return key + ": " + wrong
			}
		}
		for _, key := range s.Required {
			if _, ok := v[key]; !ok {
				return "no field " + key
			}
		}
		return s.mustBe("object")
	case []any:
		for _, value := range v {
			if wrong := s.Items.check(value); wrong != "" {
				return wrong
			}
		}
		return s.mustBe("array")
	case string:
		if s.Enum != nil && !slices.Contains(s.Enum, v) {
			return "the unknown word " + v
		}
		return s.mustBe("string")
	case json.Number:
		return s.mustBe("integer")
	case bool:
		return s.mustBe("boolean")
	}
	return fmt.Sprintf("%T", value)
}

func (s schema) mustBe(kind string) string {
	if s.Type != kind {
		return fmt.Sprintf("a value of type %s instead of %s", kind, s.Type)
	}
	return ""
}

// everyStatus are the statuses that every path can have.
var everyStatus = []int{400, 401, 403, 413, 415, 421}

// The document describes each path, each field of a body and each status of the handlers, and
// nothing else.
func TestOpenAPI(t *testing.T) {
	if !strings.HasPrefix(doc.OpenAPI, "3.1.") || len(doc.Paths) != len(operations) {
		t.Errorf("version %s, %d paths; the handlers have %d", doc.OpenAPI, len(doc.Paths), len(operations))
	}
	for _, op := range operations {
		described := doc.Paths[op.path]["post"]
		s := described.RequestBody.Content["application/json"].Schema
		fields := slices.Sorted(maps.Keys(s.Properties))
		if want := slices.Sorted(slices.Values(op.accepts)); !slices.Equal(fields, want) {
			t.Errorf("%s has the fields %v, the document %v", op.path, want, fields)
		}
		required := slices.Clone(s.Required)
		if len(s.OneOf) == 2 && slices.Equal(s.OneOf[1].Required, []string{s.OneOf[0].Required[0] + inBase64}) {
			required = append(required, s.OneOf[0].Required...) // or the same field in base64
		}
		if !slices.Equal(slices.Sorted(slices.Values(op.needs)), slices.Sorted(slices.Values(required))) {
			t.Errorf("%s needs %v, the document says %v", op.path, op.needs, s.Required)
		}
		if s.Additional == nil || *s.Additional {
			t.Errorf("%s: the document allows other fields", op.path)
		}
		for key, property := range s.Properties {
			checkField(t, op.path, key, property)
		}
		var statuses []string
		for _, status := range append(slices.Clone(everyStatus), op.statuses...) {
			statuses = append(statuses, fmt.Sprint(status))
		}
		slices.Sort(statuses)
		if found := slices.Sorted(maps.Keys(described.Responses)); !slices.Equal(found, slices.Compact(statuses)) {
			t.Errorf("%s has the statuses %v, the document %v", op.path, statuses, found)
		}
	}
}

// checkField compares a field of a body with the document.
func checkField(t *testing.T, path, key string, s schema) {
	t.Helper()
	types := map[string]string{"*string": "string", "*int64": "integer", "*bool": "boolean"}
	if kind := types[fmt.Sprintf("%T", new(requestBody).field(key))]; kind != s.Type || kind == "" {
		t.Errorf("%s: %s is of type %s, the document says %s", path, key, kind, s.Type)
	}
	switch key {
	case "name":
		if s.MaxLength != driver.MaxName {
			t.Errorf("%s: a name of %d bytes", path, s.MaxLength)
		}
	case "token":
		if s.MaxLength != driver.MaxToken || s.MinLength != minToken {
			t.Errorf("%s: a token of %d to %d characters", path, s.MinLength, s.MaxLength)
		}
	case "slots", "slot":
		if want := int64(fast.MaxSlots) - int64(len("slots")-len(key)); s.Maximum != want {
			t.Errorf("%s: %s up to %d, want %d", path, key, s.Maximum, want)
		}
	}
}

// The schemas of the answers have the fields of the Go types.
func TestOpenAPIAnswers(t *testing.T) {
	found := map[string]bool{}
	for _, v := range []any{granted{}, waiting{}, extended{}, released{}, broken{}, state{}, list{}, holder{}, asked{}, question{}, problem{}, promises{}} {
		kind := reflect.TypeOf(v)
		name := strings.ToUpper(kind.Name()[:1]) + kind.Name()[1:]
		found[name] = true
		s, required := doc.Components.Schemas[name], []string{}
		for i := range kind.NumField() {
			key, omit, _ := strings.Cut(kind.Field(i).Tag.Get("json"), ",")
			if _, ok := s.Properties[key]; !ok {
				t.Errorf("%s lacks %s", name, key)
			}
			if omit == "" {
				required = append(required, key)
			}
		}
		if len(s.Properties) != kind.NumField() || !slices.Equal(required, s.Required) {
			t.Errorf("%s has the properties %v and requires %v, want %v", name, slices.Sorted(maps.Keys(s.Properties)), s.Required, required)
		}
	}
	for name := range doc.Components.Schemas {
		if !found[name] {
			t.Errorf("no answer is a %s", name)
		}
	}
}
