package house

import (
	"go/ast"
	"go/token"
	"path"
	"regexp"
	"strconv"
	"strings"
)

// A passage is a text for people: a comment, a paragraph of a page or a message in a string. Its
// lines are joined by spaces.
type passage struct {
	kind   string // "comment", "prose", "message"
	text   string
	starts []start // one for each line, in order
}

// A start says at which offset in the text of a passage a line of the file begins.
type start struct{ at, line int }

// line returns the number of the line in the file that contains the given offset of the text.
func (p *passage) line(at int) int {
	line := 0
	for _, s := range p.starts {
		if s.at <= at {
			line = s.line
		}
	}
	return line
}

func (p *passage) add(line int, text string) {
	text = strings.TrimSpace(text)
	if text == "" {
		return
	}
	if p.text != "" {
		p.text += " "
	}
	p.starts = append(p.starts, start{len(p.text), line})
	p.text += text
}

// passages returns the texts of a file. Some files contain no text for people, so they have no
// passages.
func passages(f *houseFile) []passage {
	switch {
	case strings.Contains("/"+f.path, "/testdata/"):
		return nil
	case f.ast != nil:
		return append(goComments(f), goMessages(f)...)
	case path.Ext(f.path) == ".md":
		return pageProse(f)
	case marks[markOf(f)] != nil:
		return scriptComments(f)
	}
	return nil
}

// goComments returns the comments of a Go file, without directives and blocks of code.
func goComments(f *houseFile) []passage {
	var found []passage
	for _, group := range f.ast.Comments {
		p := passage{kind: "comment"}
		for _, c := range group.List {
			for i, text := range strings.Split(c.Text, "\n") {
				text = strings.TrimSuffix(text, "*/")
				if rest, ok := strings.CutPrefix(text, "//"); ok && isCode(rest) {
					continue
				}
				p.add(f.line(c.Pos())+i, strings.TrimLeft(text, "/*"))
			}
		}
		found = append(found, p)
	}
	return found
}

// isCode reports whether a line of a comment is a directive such as go:build, or belongs to a block
// of code. The parameter is the text after the slashes.
func isCode(text string) bool {
	return strings.HasPrefix(text, "\t") || strings.HasPrefix(text, "    ") || directive.MatchString(text)
}

var directive = regexp.MustCompile(`^[a-z]+:[a-z]`)

// goMessages returns the strings of a Go file that have three words or more in a line.
func goMessages(f *houseFile) []passage {
	var found []passage
	ast.Inspect(f.ast, func(n ast.Node) bool {
		lit, ok := n.(*ast.BasicLit)
		if !ok || lit.Kind != token.STRING {
			return true
		}
		text, err := strconv.Unquote(lit.Value)
		if err == nil && isMessage.MatchString(text) {
			p := passage{kind: "message"}
			for i, line := range strings.Split(text, "\n") {
				if lit.Value[0] != '`' {
					i = 0
				}
				p.add(f.line(lit.Pos())+i, line)
			}
			found = append(found, p)
		}
		return true
	})
	return found
}

var isMessage = regexp.MustCompile(`[A-Za-z]+ [a-z]+ [a-z]+`)

// marks matches the beginning of a comment, for each kind of file.
var marks = map[string]*regexp.Regexp{
	"lua":   regexp.MustCompile(`^\s*--+(.*)$`),
	"shell": regexp.MustCompile(`^\s*#+([^!].*)$`),
}

func markOf(f *houseFile) string {
	switch path.Ext(f.path) {
	case ".lua":
		return "lua"
	case ".sh", ".yml", ".yaml":
		return "shell"
	}
	if strings.HasPrefix(f.path, ".ci/") || path.Base(f.path) == "Makefile" || f.path == "modules.txt" {
		return "shell"
	}
	return ""
}

// scriptComments returns the comments of a script that have lines of their own.
func scriptComments(f *houseFile) []passage {
	mark := marks[markOf(f)]
	var found []passage
	p := passage{kind: "comment"}
	for i, line := range append(strings.Split(string(f.src), "\n"), "") {
		if m := mark.FindStringSubmatch(line); m != nil {
			p.add(i+1, m[1])
			continue
		}
		if p.text != "" {
			found = append(found, p)
		}
		p = passage{kind: "comment"}
	}
	return found
}

// pageProse returns the paragraphs of a Markdown page, without code. Each item of a list and each
// row of a table is a passage of its own.
func pageProse(f *houseFile) []passage {
	var found []passage
	p := passage{kind: "prose"}
	end := func() {
		if p.text != "" {
			found = append(found, p)
		}
		p = passage{kind: "prose"}
	}
	fenced := false
	for i, line := range strings.Split(string(f.src), "\n") {
		switch {
		case strings.HasPrefix(strings.TrimSpace(line), "```"):
			fenced = !fenced
			end()
		case fenced:
		case itemMark.MatchString(line):
			end()
			p.add(i+1, strings.TrimLeft(strings.TrimSpace(line), "-*+ "))
		case strings.TrimSpace(line) == "":
			end()
		default:
			p.add(i+1, line)
		}
	}
	end()
	return found
}

// itemMark matches the beginning of an item, a row or a heading. Each of these is a passage of its
// own.
var itemMark = regexp.MustCompile(`^\s*([-*+] |\d+\. |\||#)`)
