package redisstore

import (
	"io/fs"
	"regexp"
	"strings"
	"testing"

	"github.com/padlock-go/padlock/driver"
)

var (
	luaComment = regexp.MustCompile(`--.*`)
	// These expressions match calls of functions that take positions in a string, and the numbers
	// in such calls. Two numbers are not in the table: the beginning (1, or 0 in commands), and -6
	// for the six digits of microseconds.
	luaPosition = regexp.MustCompile(`(?:string\.(?:sub|byte)|'(?:GETRANGE|SETRANGE)')[^\n]*?`)
	luaNumber   = regexp.MustCompile(`[^\w'%.\]\[-](\d+)\b`)
)

// bareOffsets returns the lines of a script that have a position, a width or a byte as a number
// instead of a word of the table.
func bareOffsets(script string) []string {
	var found []string
	for line := range strings.Lines(script) {
		line = luaComment.ReplaceAllString(strings.TrimSpace(line), "")
		for _, call := range positionCalls(line) {
			for _, n := range luaNumber.FindAllStringSubmatch(call, -1) {
				if n[1] != "1" && n[1] != "0" {
					found = append(found, line)
				}
			}
		}
		if strings.Contains(line, "string.byte") && regexp.MustCompile(`[=<>]=? *\d`).MatchString(line) ||
			regexp.MustCompile(`'%0\d+`).MatchString(line) || regexp.MustCompile(`'[hr]?0{13}'|PADLOCK[A-Z]`).MatchString(line) {
			found = append(found, line)
		}
	}
	return found
}

// positionCalls finds the calls in a line that take positions, and returns the arguments of each.
func positionCalls(line string) []string {
	var calls []string
	for _, at := range luaPosition.FindAllStringIndex(line, -1) {
		depth := 0
		for i := at[1]; i <= len(line); i++ {
			if i == len(line) || depth == 0 && line[i] == ')' && i > at[1] {
				calls = append(calls, line[at[1]:min(i+1, len(line))])
				break
			}
			switch line[i] {
			case '(':
				depth++
			case ')':
				if depth--; depth == 0 {
					calls = append(calls, line[at[1]:i+1])
					i = len(line)
				}
			}
		}
	}
	return calls
}

// wordPattern finds what looks like a word of the table.
var wordPattern = regexp.MustCompile(`\b(NOTE|COUNTED|CHANNEL|BYTE|FORMAT|MS|REFUSED)_[A-Z0-9_]+\b`)

// TestScriptsHaveNoBareOffset: the scripts find the fields of a note only by the words of the table
// in note.go.
func TestScriptsHaveNoBareOffset(t *testing.T) {
	used := map[string]bool{}
	err := fs.WalkDir(sources, "lua", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := fs.ReadFile(sources, path)
		if err != nil {
			return err
		}
		for _, line := range bareOffsets(string(text)) {
			t.Errorf("%s has a position or a width as a number; use a word of the table in note.go: %s", path, line)
		}
		for _, word := range wordPattern.FindAllString(string(text), -1) {
			used[word] = true
			if scriptWords[word] == "" {
				t.Errorf("%s has the word %s, which is not in the table in note.go", path, word)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if text := bothScripts["set"]().fastAcquire.text; !strings.HasPrefix(text, "-- padlock, notes of version 1\n") {
		t.Errorf("a script does not name its version: %.60s", text)
	}
	for word := range scriptWords {
		if !used[word] && word != "NOTE_VERSION" {
			t.Errorf("no script uses the word %s", word)
		}
	}
	for _, line := range []string{
		"local f = string.sub(v, 2, 17)", "if string.sub(v, NOTE_LENGTH, 17 + #a) ~= a then return 0 end", "if string.byte(v) ~= 45 then return 2 end",
		"call('GETRANGE', K, 2, 17)", "v .. string.format('%016.0f', f)", "state ~= 'h0000000000000'", "local t = string.sub(ARGV[4], 4)",
	} {
		if len(bareOffsets(line)) == 0 {
			t.Errorf("the test does not find the number in: %s", line)
		}
	}
}

// TestReadNote reads notes of each kind. A note of a later version is refused.
func TestReadNote(t *testing.T) {
	fence, holder := "1700000000123456", `{"label":"nightly"}`
	for _, row := range []struct {
		note  string
		since int64
		more  bool
		ok    bool
	}{
		{"-" + fence + counted("token") + "H" + holder, 1700000000123, false, true},
		{"!" + fence + counted("token") + "h" + "0000000000000" + "1700000000999" + holder, 1700000000999, true, true},
		{"!" + fence + counted("token") + "r" + "1700000000777" + "1700000000888" + holder, 1700000000888, true, true},
		{"-" + fence, 0, false, false},
		{"B" + fence + counted("token") + "H" + holder, 0, false, false},
		{"-" + fence + "009token", 0, false, false},
		{"-" + fence + "-01token", 0, false, false},
		{"", 0, false, false},
	} {
		h, since, more, ok := readNote(row.note)
		if ok != row.ok || since != row.since || more != row.more || ok && h != (driver.Holder{Label: "nightly"}) {
			t.Errorf("%q is read as %+v, %d, %v, %v", row.note, h, since, more, ok)
		}
	}
}

func TestVersionOf(t *testing.T) {
	for flag, want := range map[string]int{"-": 1, "!": 1, "B": 2, "b": 2, "c": 3, "Z": 26, "A": 0, "~": 0, "": 0, "bb": 0} {
		if got := versionOf(flag); got != want {
			t.Errorf("the flag %q is of version %d, want %d", flag, got, want)
		}
	}
}
