package printable

import "testing"

func TestPrintable(t *testing.T) {
	for _, c := range []struct{ text, name, message string }{
		{"", "", ""},
		{`invoice:42 "été" \ \\`, `invoice:42 "été" \ \\`, `invoice:42 "été" \ \\`},
		{"a\nb", `a\nb`, `a\nb`},
		{"\x1b[2J\a", `\x1b[2J\a`, `\x1b[2J\a`},
		{"\u202e.cod\u2028", `\u202e.cod\u2028`, `\u202e.cod\u2028`}, // changes the direction; ends a line
		{"\xff\xfe", `\xff\xfe`, `\xff\xfe`},
		{"\uFFFD", "\uFFFD", "\uFFFD"}, // this character itself is printable
		{"say \"C:\\x\"\n", `say "C:\\x"\n`, `say "C:\x"\n`},
		{"a\u00a0b", `a\u00a0b`, `a\u00a0b`}, // looks like a space, and is another name
	} {
		if got := Name(c.text); got != c.name {
			t.Errorf("Name(%q) is %q, want %q", c.text, got, c.name)
		}
		if got := Message(c.text); got != c.message {
			t.Errorf("Message(%q) is %q, want %q", c.text, got, c.message)
		}
		if got := Is(c.text); got != (c.text == c.name) {
			t.Errorf("Is(%q) is %t", c.text, got)
		}
		if !Is(c.name) || !Is(c.message) {
			t.Errorf("the escapes of %q are not printable: %q, %q", c.text, c.name, c.message)
		}
	}
}

func TestCut(t *testing.T) {
	for _, c := range []struct {
		text string
		n    int
		want string
	}{
		{"", 0, ""}, {"ab", 2, "ab"}, {"abc", 2, "ab"}, {"abc", 0, ""},
		{"a\u00e9b", 2, "a"}, {"a\u00e9b", 3, "a\u00e9"}, {"\u00e9", 1, ""},
		{"\U0001f512x", 3, ""}, {"\U0001f512x", 4, "\U0001f512"}, {"ab\U0001f512", 5, "ab"},
		{"\xff\x80\x80\x80\x80\x80\x80", 5, "\xff\x80\x80\x80\x80"},
	} {
		if got := Cut(c.text, c.n); got != c.want {
			t.Errorf("Cut(%q, %d) is %q, want %q", c.text, c.n, got, c.want)
		}
	}
}
