package markup

import (
	"go/token"
	"html"
	"net/url"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"
)

const injected = "</p>\"'><script>alert(1)</script>&amp;\r"

// withText returns the parts of an element that take a text of others.
func withText(text string) map[string]Part {
	return map[string]Part{
		"Text": Text(text), "Class": Class(text), "ID": ID(text), "Name": Name(text), "Value": Value(text),
		"Data": Data("x", text), "Aria": Aria("label", text), "Href": Href(Local("name", url.Values{"n": {text}})),
		"a page": Render(El("b", Text(text))),
	}
}

// A text stays a text, with any characters, and a browser shows it as it was.
func FuzzTexts(f *testing.F) {
	for _, text := range []string{injected, "javascript:alert(1)", "\x00\xff", "</script>", "&#34;", "\u2028"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		want := strings.ReplaceAll(strings.ToValidUTF8(text, "\uFFFD"), "\x00", "\uFFFD")
		for name, part := range withText(text) {
			out := string(Render(El("a", part)).Bytes())
			quotes, tags := 2, 2
			switch name {
			case "Text":
				quotes = 0
			case "a page":
				quotes, tags = 0, 4
			}
			if strings.Count(out, "<") != tags || strings.Count(out, `"`) != quotes || strings.ContainsAny(out, "\r\x00'") || !utf8.ValidString(out) {
				t.Errorf("%s of %q is %s", name, text, out)
			}
			if !strings.Contains(html.UnescapeString(out), want) && name != "Href" {
				t.Errorf("%s of %q does not show %q: %s", name, text, want, out)
			}
		}
	})
}

// The names of elements and attributes, fixed values and the paths of addresses are of a type that
// other packages cannot name. They can give only constants, so no text of others gets there.
func TestOnlyConstants(t *testing.T) {
	for name, parameter := range map[string]reflect.Type{
		"the name of an element": reflect.TypeOf(El).In(0), "the name of an attribute": reflect.TypeOf(Fixed).In(0),
		"a fixed value": reflect.TypeOf(Fixed).In(1), "the name of a flag": reflect.TypeOf(Flag).In(0),
		"the path of an address": reflect.TypeOf(Local).In(0),
		"the rest of data-":      reflect.TypeOf(Data).In(0), "the rest of aria-": reflect.TypeOf(Aria).In(0),
	} {
		if parameter != reflect.TypeFor[constant]() {
			t.Errorf("%s is of type %v, so a variable can be given", name, parameter)
		}
	}
	if c := reflect.TypeFor[constant](); c.PkgPath() == "" || token.IsExported(c.Name()) {
		t.Errorf("other packages can convert a variable to %v", c)
	}
	for _, made := range []reflect.Type{reflect.TypeFor[URL](), reflect.TypeFor[Page]()} {
		for i := range made.NumField() {
			if f := made.Field(i); f.IsExported() {
				t.Errorf("other packages can set %s of %v", f.Name, made)
			}
		}
	}
	part := reflect.TypeFor[Part]()
	own := false
	for i := range part.NumMethod() {
		own = own || !part.Method(i).IsExported()
	}
	if !own {
		t.Error("other packages can make parts of their own, which escape nothing")
	}
}

// An address has the path of the program, even if a parameter looks like an address.
func TestAddresses(t *testing.T) {
	for text, want := range map[string]string{
		"javascript:alert(1)": "./?n=javascript%3Aalert%281%29", "//evil.example/": "./?n=%2F%2Fevil.example%2F", `"><`: "./?n=%22%3E%3C",
	} {
		if got := Local("./", url.Values{"n": {text}}).String(); got != want {
			t.Errorf("the address for %q is %q, want %q", text, got, want)
		}
	}
	if got := Local("./", nil).String(); got != "./" {
		t.Errorf("an address without parameters is %q", got)
	}
}

// A text never becomes code.
func TestScriptHasNoContent(t *testing.T) {
	got := string(Render(El("script", Fixed("src", "live.js"), Flag("defer"), Text("alert(1)")), El("style", Text("*{}"))).Bytes())
	if want := "<script src=\"live.js\" defer></script>\n<style></style>\n"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestDocument(t *testing.T) {
	got := string(Document(El("p", ID("a"), nil, If(false, Text("no")), If(true, Class("b"), Text("1 < 2"))), Group{El("img", Text("no"))}).Bytes())
	if want := "<!doctype html>\n<p id=\"a\" class=\"b\">1 &lt; 2</p>\n<img>"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
