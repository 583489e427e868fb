package command

import (
	"bytes"
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"
)

// Scripts depend on the names of fields, so docs/json.md has each of them.
func TestJSONFieldsAreDocumented(t *testing.T) {
	text, err := os.ReadFile("../../../../docs/json.md")
	if err != nil {
		t.Fatal(err)
	}
	tags := regexp.MustCompile("`json:\"([^\",]+)")
	source, err := os.ReadFile("../../../../observe/sampler/json.go") // what top prints
	if err != nil {
		t.Fatal(err)
	}
	told := 0
	for _, m := range tags.FindAllSubmatch(source, -1) {
		told++
		if !bytes.Contains(text, []byte("`"+string(m[1])+"`")) {
			t.Errorf("a snapshot has a field %q, which docs/json.md does not tell", m[1])
		}
	}
	if told < 40 {
		t.Errorf("only %d fields of a snapshot were found", told)
	}
	for _, v := range []any{note{}, process{}, handedOver{}, extended{}, released{}, broken{}, promised{}, finding{}, diagnosis{}, about{}, pastRun{}, pastJob{}, holder{}} {
		for _, field := range reflect.VisibleFields(reflect.TypeOf(v)) {
			name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			if name == "" && field.Anonymous {
				continue
			}
			told++
			if !strings.Contains(string(text), "`"+name+"`") {
				t.Errorf("%T has a field %q, which docs/json.md does not tell", v, name)
			}
		}
	}
	if told < 50 {
		t.Errorf("only %d fields were found", told)
	}
}
