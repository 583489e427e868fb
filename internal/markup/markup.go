// Package markup makes HTML in Go code. It protects pages against injected markup: only constants
// of the program become markup, and all texts and all values of attributes are escaped. The path of
// an address is always a constant. Some attributes contain a script, or an address from which the
// browser loads something. No function writes a text into such an attribute.
package markup

import (
	"net/url"
	"strings"
	"time"
	"unicode/utf8"
)

// constant is the type of parameters that must be constants of the program. Other packages cannot
// name the type, so they cannot convert a variable to it.
type constant string

// Part is a part of a page: an element, a text, an attribute, or several parts. A nil Part adds
// nothing.
type Part interface {
	appendAttributes(b []byte) []byte // the attributes that the part gives to its element
	appendContent(b []byte) []byte    // the part between the tags of its element
}

// shape says how an element is written.
type shape struct {
	void bool // without content and without an end tag
	line bool // El adds a line break after the element; browsers ignore the line break there
	code bool // El leaves the content out, because it would be code
}

var shapes = map[constant]shape{
	"img": {void: true}, "input": {void: true},
	"link": {void: true, line: true}, "meta": {void: true, line: true},
	"script": {line: true, code: true}, "style": {line: true, code: true},
	"html": {line: true}, "head": {line: true}, "body": {line: true}, "title": {line: true},
	"header": {line: true}, "main": {line: true}, "footer": {line: true},
	"h1": {line: true}, "h2": {line: true}, "p": {line: true}, "div": {line: true}, "form": {line: true},
	"table": {line: true}, "caption": {line: true}, "thead": {line: true}, "tbody": {line: true}, "tr": {line: true},
	"td": {line: true}, "th": {line: true}, "dl": {line: true}, "dd": {line: true},
}

type element struct {
	name  constant
	parts []Part
}

// El returns an element with attributes and content. The content of a void element, of a script and
// of a style is left out.
func El(name constant, parts ...Part) Part { return element{name, parts} }

func (e element) appendAttributes(b []byte) []byte { return b }

func (e element) appendContent(b []byte) []byte {
	s := shapes[e.name]
	b = append(append(b, '<'), e.name...)
	b = Group(e.parts).appendAttributes(b)
	b = append(b, '>')
	if !s.void && !s.code {
		b = Group(e.parts).appendContent(b)
	}
	if !s.void {
		b = append(append(append(b, "</"...), e.name...), '>')
	}
	if s.line {
		b = append(b, '\n')
	}
	return b
}

// Group is a list of parts, which are written one after the other in the place of the Group.
type Group []Part

func (g Group) appendAttributes(b []byte) []byte {
	for _, p := range g {
		if p != nil {
			b = p.appendAttributes(b)
		}
	}
	return b
}

func (g Group) appendContent(b []byte) []byte {
	for _, p := range g {
		if p != nil {
			b = p.appendContent(b)
		}
	}
	return b
}

// If returns the parts if the condition is true, and otherwise nothing.
func If(condition bool, parts ...Part) Part {
	if condition {
		return Group(parts)
	}
	return nil
}

// Text is a text that the browser shows unchanged, because its special characters are escaped.
type Text string

func (t Text) appendAttributes(b []byte) []byte { return b }
func (t Text) appendContent(b []byte) []byte    { return appendEscaped(b, string(t)) }

// Page is HTML that Render or Document has made. It can be a part of another page.
type Page struct{ html []byte }

// Render returns the HTML of the parts.
func Render(parts ...Part) Page { return Page{Group(parts).appendContent(nil)} }

// Document returns a whole page: the line "<!doctype html>", and then the parts.
func Document(parts ...Part) Page {
	return Page{Group(parts).appendContent([]byte("<!doctype html>\n"))}
}

// Bytes returns the HTML. The caller must not change it. It contains no carriage return.
func (p Page) Bytes() []byte { return p.html }

func (p Page) appendAttributes(b []byte) []byte { return b }
func (p Page) appendContent(b []byte) []byte    { return append(b, p.html...) }

type attribute struct {
	name  string
	value string
}

func (a attribute) appendContent(b []byte) []byte { return b }

func (a attribute) appendAttributes(b []byte) []byte {
	b = append(append(append(b, ' '), a.name...), `="`...)
	return append(appendEscaped(b, a.value), '"')
}

// Fixed returns an attribute whose value is a constant.
func Fixed(name, value constant) Part { return attribute{string(name), string(value)} }

// Class returns the attribute class.
func Class(value string) Part { return attribute{"class", value} }

// ID returns the attribute id.
func ID(value string) Part { return attribute{"id", value} }

// Name returns the attribute name.
func Name(value string) Part { return attribute{"name", value} }

// Value returns the attribute value.
func Value(value string) Part { return attribute{"value", value} }

// DateTime returns the attribute datetime, in the form that browsers read.
func DateTime(t time.Time) Part { return attribute{"datetime", t.UTC().Format(time.RFC3339)} }

// Data returns the attribute data-NAME.
func Data(name constant, value string) Part { return attribute{"data-" + string(name), value} }

// Aria returns the attribute aria-NAME.
func Aria(name constant, value string) Part { return attribute{"aria-" + string(name), value} }

// Href returns the attribute href.
func Href(to URL) Part { return attribute{"href", to.text} }

// Flag is an attribute without a value.
func Flag(name constant) Part { return flag(name) }

type flag string

func (f flag) appendContent(b []byte) []byte    { return b }
func (f flag) appendAttributes(b []byte) []byte { return append(append(b, ' '), f...) }

// URL is an address on the same server.
type URL struct{ text string }

// Local returns the address with the given path and parameters. The path is relative to that of the
// page.
func Local(path constant, parameters url.Values) URL {
	if query := parameters.Encode(); query != "" {
		return URL{string(path) + "?" + query}
	}
	return URL{string(path)}
}

// String returns the address as text.
func (u URL) String() string { return u.text }

// appendEscaped appends a text so that it cannot end the element or the attribute in which it
// stands.
func appendEscaped(b []byte, text string) []byte {
	for _, c := range strings.ToValidUTF8(text, "\uFFFD") {
		switch c {
		case '&':
			b = append(b, "&amp;"...)
		case '<':
			b = append(b, "&lt;"...)
		case '>':
			b = append(b, "&gt;"...)
		case '"':
			b = append(b, "&#34;"...)
		case '\'':
			b = append(b, "&#39;"...)
		case '\r':
			b = append(b, "&#13;"...)
		case 0:
			b = append(b, "\uFFFD"...)
		default:
			b = utf8.AppendRune(b, c)
		}
	}
	return b
}
