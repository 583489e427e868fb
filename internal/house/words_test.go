package house

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// maxWidth is the width of prose. A tab counts as four columns.
const maxWidth = 100

// A pattern matches a phrase that plain English does not need.
type pattern struct {
	find *regexp.Regexp
	say  string
}

var patterns = []pattern{
	// name the actor: "a waiter that asks again", not "who asks again"
	{regexp.MustCompile(`(?:^|[.!:;] )((?:Who|What)(?:ever)? [^?.]*)(?:[.]|$)`), `a sentence begins with "who" or "what": name the actor`},
	{regexp.MustCompile(`\b((?i:whoever|those who|they who|he who))\b`), `"who" as a noun: name the actor (a waiter, the caller, the process that …)`},
	{regexp.MustCompile(`\b((?:of|for|with|by|to|from|into|without|than|until|since|because|but) (?:who|what)) `), `"who" or "what" as a noun: name the thing`},
	// full sentences
	{regexp.MustCompile(`(?:^|[.:] )((?:Never|Not|Also|Rarely|Seldom|Hardly|By)(?: [a-z']+){0,3}[.])`), `no verb: write a full sentence`},
	{regexp.MustCompile(`\b((?:by|for|with|of|in|at|from) none)[.;,]`), `no verb: write a full sentence`},
	{regexp.MustCompile(`\b([Aa]lso (?:if|when|where|after|before|with))\b`), `"also if" is "even if", or a sentence of its own`},
	// everyday verbs
	{regexp.MustCompile(`\b((?:[Ii]s|[Aa]re|was|were|be|being|been|gets?|got) told)(?:$|[^ ]| [^a]| a[^p])`), `say "gets", "learns", "sees", or name the actor: "Release reports …"`},
	{regexp.MustCompile("\\b([Aa]nswer(?:s|ed)?(?: with)? [`\\[]*(?:errors[.]|driver[.]Err|padlock[.]Err|Err[A-Z]|an error|no error|nil\\b))"), `a function returns an error, it does not answer it`},
	{regexp.MustCompile(`\b(by lot)\b`), `say "at random"`},
	{regexp.MustCompile(`\b([Bb]eside)\b`), `say "next to", "together with", "compared with", "besides" or "while … runs"`},
	{regexp.MustCompile(`\b(of (?:ours|theirs|mine))\b`), `say "of padlock's own", or whose it is`},
}

// An allowedPhrase is an exception: a text in a file that matches a pattern and may stay.
type allowedPhrase struct{ path, phrase, reason string }

var allowedPhrases = []allowedPhrase{
	{"internal/house/", "", "the rules of language and their tests quote the patterns"},
	{"docs/", "What to do", "the heading of a list, in bold"},
}

// notYet lists directories whose texts were written before these rules. There, the test logs a
// match but does not fail.
var notYet = []string{}

// TestWords reads the comments, messages and pages of each directory. To work on one, run
//
//	PADLOCK_WORDS=yes go test ./internal/house -run 'TestWords/redisstore$' -v
func TestWords(t *testing.T) {
	taste(t)
	byDir := map[string][]*houseFile{}
	for _, f := range readHouse(t) {
		byDir[f.pkg()] = append(byDir[f.pkg()], f)
	}
	for _, dir := range slices.Sorted(maps.Keys(byDir)) {
		t.Run(dir, func(t *testing.T) {
			var words, width []string
			for _, f := range byDir[dir] {
				words = append(words, checkWords(f)...)
				width = append(width, checkWidth(f)...)
			}
			t.Logf("%d phrases, %d wide lines", len(words), len(width))
			all := append(words, width...)
			switch late := slices.Contains(notYet, dir); {
			case late && len(all) == 0:
				t.Errorf("%s is clean: drop it from notYet in words_test.go", dir)
			case late:
				t.Log(strings.Join(all, "\n"))
			default:
				report(t, all)
			}
		})
	}
}

// checkWords reports the patterns in a file's texts.
func checkWords(f *houseFile) []string {
	var found []string
	for _, p := range passages(f) {
		for _, pat := range patterns {
			for _, at := range pat.find.FindAllStringSubmatchIndex(p.text, -1) {
				phrase := p.text[at[2]:at[3]]
				if strings.HasPrefix(p.text, "#") || phraseAllowed(f.path, p.text) { // headings may be questions
					continue
				}
				found = append(found, fmt.Sprintf("%s:%d: %q: %s", f.path, p.line(at[2]), shorten(phrase), pat.say))
			}
		}
	}
	return found
}

func phraseAllowed(path, text string) bool {
	return slices.ContainsFunc(allowedPhrases, func(a allowedPhrase) bool {
		return strings.HasPrefix(path, a.path) && strings.Contains(text, a.phrase)
	})
}

// shorten shortens a phrase for a report.
func shorten(phrase string) string {
	if runes := []rune(phrase); len(runes) > 60 {
		return string(runes[:60]) + "…"
	}
	return phrase
}

// checkWidth reports lines of comments and pages that are wider than maxWidth. It ignores code,
// tables, and lines that are wide because of one long word such as an address.
func checkWidth(f *houseFile) []string {
	lines := strings.Split(string(f.src), "\n")
	var found []string
	for _, p := range passages(f) {
		if p.kind == "message" {
			continue
		}
		for _, s := range p.starts {
			line := lines[s.line-1]
			if width := columns(line); width > maxWidth && ownLine(f, line) && !unbreakable(line) {
				found = append(found, fmt.Sprintf("%s:%d: %d columns: wrap prose at %d", f.path, s.line, width, maxWidth))
			}
		}
	}
	return found
}

func columns(line string) int {
	return utf8.RuneCountInString(strings.ReplaceAll(line, "\t", "    "))
}

// ownLine reports whether a line contains only prose. A row of a table, or code with a comment at
// its end, is not only prose.
func ownLine(f *houseFile, line string) bool {
	line = strings.TrimSpace(line)
	if f.ast != nil && !strings.HasPrefix(line, "//") {
		return false
	}
	return !strings.HasPrefix(strings.TrimLeft(line, "/-# "), "|")
}

// unbreakable reports whether a line is wide because of an address, or has no place at which it can
// be broken.
func unbreakable(line string) bool {
	return strings.Contains(line, "://") || len(strings.Fields(line)) <= 2
}
