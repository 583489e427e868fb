package certificate

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/padlock-go/padlock/driver"
)

// marks are around the part of the page that is made.
var marks = regexp.MustCompile(`(?s)(<!-- make certified writes what follows -->\n).*?(<!-- end of what is made -->\n)`)

// Conversation returns the path of the recorded conversation that stands beside a certificate.
func Conversation(path string) string {
	return strings.TrimSuffix(path, ".json") + "-conversation.json"
}

// paths returns the certificates in a directory.
func paths(dir string) ([]string, error) {
	all, err := filepath.Glob(filepath.Join(dir, "*.json"))
	return slices.DeleteFunc(all, func(path string) bool { return strings.HasSuffix(path, "-conversation.json") }), err
}

// Fill returns the text of docs/certified.md with what the files in the directory say, between its
// two marks. The order is that of the files' names.
func Fill(page, dir string) (string, error) {
	paths, err := paths(dir)
	if err != nil {
		return "", err
	}
	var table, details strings.Builder
	table.WriteString("| service | verdict | questions: held, broke, not asked | 16 writers at once: rounds, grants, refused | under faults: grants, faults | made on, load before |\n|---|---|---|---|---|---|\n")
	for _, path := range paths {
		c, err := Read(path)
		if err != nil {
			return "", err
		}
		name := filepath.Base(path)
		c.row(&table, name)
		c.details(&details, strings.TrimSuffix(name, ".json"))
	}
	if !marks.MatchString(page) {
		return "", fmt.Errorf("the page has no marks: %v", marks)
	}
	made := "\n" + table.String() + details.String() + "\n"
	return marks.ReplaceAllStringFunc(page, func(old string) string {
		m := marks.FindStringSubmatch(old)
		return m[1] + made + m[2]
	}), nil
}

// Publish writes the page anew.
func Publish(path, dir string) error {
	page, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	text, err := Fill(string(page), dir)
	if err != nil {
		return err
	}
	return os.WriteFile(path, []byte(text), 0o644)
}

// counts returns the numbers of a question as a sentence, or "not asked".
func (c *Certificate) counts(name, format string, what ...string) string {
	for i := range c.Questions {
		q := &c.Questions[i]
		if q.Name != name || q.Verdict == NotAsked {
			continue
		}
		var numbers []any
		for _, w := range what {
			numbers = append(numbers, q.Counts[w])
		}
		return fmt.Sprintf(format, numbers...)
	}
	return string(NotAsked)
}

func (c *Certificate) row(b *strings.Builder, file string) {
	made := c.Made.Format(time.DateOnly)
	if _, load, ok := strings.Cut(c.Machine, ", load "); ok {
		made += ", " + strings.TrimSuffix(load, " before")
	}
	fmt.Fprintf(b, "| [%s](certified/%s), %s | %s | %d, %d, %d | %s | %s | %s |\n",
		strings.TrimSuffix(file, ".json"), file, c.service(), marked(c.Verdict),
		len(c.with(Held)), len(c.with(Broke)), len(c.with(NotAsked)),
		c.counts("conditions/16", "%d, %d, %d", "rounds", "grants", "refused"),
		c.counts("soak", "%d, %d", "grants", "faults"), made)
}

func marked(v Verdict) string {
	if v == Broke {
		return "**broke**"
	}
	return string(v)
}

// maxBroken is how many broken questions the page shows of one service. The file has all.
const maxBroken = 6

// details says what was seen when a question broke, and what an operator of the service should know. The
// file has what was asked.
func (c *Certificate) details(b *strings.Builder, name string) {
	broken, advice := c.with(Broke), c.Conditions()
	if len(broken)+len(advice) == 0 {
		return
	}
	fmt.Fprintf(b, "\n### %s\n\n", name)
	for i, q := range broken {
		if i == maxBroken {
			fmt.Fprintf(b, "- and %d more questions broke\n", len(broken)-i)
			break
		}
		bullet(b, fmt.Sprintf("broke `%s`: %s", q.Name, firstLine(q.Seen)))
	}
	for _, f := range advice {
		bullet(b, fmt.Sprintf("as it was set up, %s: %s; %s", f.Name, f.Value, f.Advice))
	}
}

func firstLine(lines []string) string {
	if len(lines) == 0 {
		return "see the file"
	}
	first, _, _ := strings.Cut(lines[0], "\n")
	return plain(first)
}

// plain returns what was seen without the class of the error, which says nothing to a reader who did
// not write the call.
func plain(seen string) string {
	return strings.TrimPrefix(seen, driver.ErrInvalid.Error()+": ")
}

// bullet writes an item of a list, wrapped as all pages are.
func bullet(b *strings.Builder, text string) {
	const width = 98
	line := "-"
	for _, word := range strings.Fields(text) {
		if len(line)+1+len(word) > width {
			b.WriteString(line + "\n")
			line = " "
		}
		line += " " + word
	}
	b.WriteString(line + "\n")
}
