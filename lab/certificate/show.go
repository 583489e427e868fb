package certificate

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

// Show prints the certificate for a person: what broke, then what held, then what was not asked.
func (c *Certificate) Show(w io.Writer) error {
	b := &strings.Builder{}
	fmt.Fprintf(b, "%s: %s, %s\n", strings.ToUpper(string(c.Verdict)), c.service(), c.URL)
	fmt.Fprintf(b, "made on %s in %.0f s by padlock %s, on %s\n", c.Made.Format("2 January 2006, 15:04 MST"), c.Seconds, c.Padlock, c.Machine)
	for _, q := range c.with(Broke) {
		fmt.Fprintf(b, "\nBROKE  %s: %s\n", q.Name, q.Asked)
		for _, line := range q.Seen {
			fmt.Fprintf(b, "       seen:   %s\n", strings.ReplaceAll(plain(line), "\n", "\n               "))
		}
		fmt.Fprintf(b, "       repeat: %s\n", q.Repeat)
	}
	if held := c.with(Held); len(held) > 0 {
		fmt.Fprintln(b, "\nheld:")
		for _, g := range grouped(held, group) {
			fmt.Fprintf(b, "  %s\n", g.summary())
		}
	}
	if missing := c.with(NotAsked); len(missing) > 0 {
		fmt.Fprintln(b, "\nnot asked:")
		for _, g := range grouped(missing, func(q *Question) string { return q.Why }) {
			fmt.Fprintf(b, "  %s: %s\n", g.key, strings.Join(g.names(), ", "))
		}
	}
	if advice := c.Conditions(); len(advice) > 0 {
		fmt.Fprintln(b, "\nas the service is set up:")
		for _, f := range advice {
			fmt.Fprintf(b, "  %s: %s; %s\n", f.Name, f.Value, f.Advice)
		}
	}
	if len(c.Promises) > 0 {
		fmt.Fprintln(b, "\nwhat the store promises with this service:")
		for _, p := range c.Promises {
			bullet(b, p)
		}
	}
	if c.Left != "" {
		fmt.Fprintf(b, "\nleft behind, with %s in the name: %s\n", c.Names, c.Left)
	}
	if c.Short() {
		fmt.Fprintf(b, "\nmade with --for %s: a mistake of one write in a thousand needs --for %v or more\n", c.For, MinFor)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// family is questions with something in common.
type family struct {
	key string
	all []*Question
}

// group returns the first word of a question's name, which its family shares. A question with a number
// of writers is alone: its numbers say nothing about another number of writers.
func group(q *Question) string {
	if q.Counts["writers"] > 0 {
		return q.Name
	}
	first, _, _ := strings.Cut(q.Name, "/")
	return first
}

// grouped returns the questions by key, in the order of the first one of each.
func grouped(all []*Question, key func(*Question) string) (out []*family) {
	known := map[string]*family{}
	for _, q := range all {
		k := key(q)
		if known[k] == nil {
			known[k] = &family{key: k}
			out = append(out, known[k])
		}
		known[k].all = append(known[k].all, q)
	}
	return out
}

func (f *family) names() (all []string) {
	for _, q := range f.all {
		all = append(all, q.Name)
	}
	return all
}

// summary is a line such as "conditions/16: grants 4711, rounds 4711, writers 16", or "acquire (9
// questions)".
func (f *family) summary() string {
	counts := map[string]int{}
	for _, q := range f.all {
		for what, n := range q.Counts {
			counts[what] = max(counts[what], n)
		}
	}
	text := f.all[0].Name
	if len(f.all) > 1 {
		text = fmt.Sprintf("%s (%d questions)", f.key, len(f.all))
	}
	var parts []string
	for _, what := range slices.Sorted(maps.Keys(counts)) {
		parts = append(parts, fmt.Sprintf("%s %d", what, counts[what]))
	}
	if len(parts) > 0 {
		text += ": " + strings.Join(parts, ", ")
	}
	return text
}
