package main

import (
	"os"
	"reflect"
	"strings"
	"testing"
)

// Scripts depend on the names of fields, so docs/command.md has each of them.
func TestJSONFieldsAreDocumented(t *testing.T) {
	text, err := os.ReadFile("../../docs/command.md")
	if err != nil {
		t.Fatal(err)
	}
	told := 0
	for _, v := range []any{note{}, process{}, state{}, hold{}, handedOver{}, extended{}, released{}, broken{}, waited{}, promised{}, finding{}, diagnosis{}, about{}, pastRun{}, lastRuns{}, holder{}} {
		for _, field := range reflect.VisibleFields(reflect.TypeOf(v)) {
			name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			if name == "" && field.Anonymous {
				continue
			}
			told++
			if !strings.Contains(string(text), "`"+name+"`") {
				t.Errorf("%T has a field %q, which docs/command.md does not tell", v, name)
			}
		}
	}
	if told < 50 {
		t.Errorf("only %d fields were found", told)
	}
}
