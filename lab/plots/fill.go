package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// tableBegin and tableEnd are the lines around a table of a page: that of a chart, named by its
// file, or a summary, named by its name. `make plots` writes everything between them.
const (
	tableBegin = "<!-- make plots writes this table: %s -->\n"
	tableEnd   = "<!-- end of the table -->\n"
)

// writeTables writes the tables of all charts, and the summaries, into the pages that have a place
// for them: those in the directory pages, and those for contributors below it.
func writeTables(all run, pages string) error {
	names, err := filepath.Glob(filepath.Join(pages, "*.md"))
	if err != nil {
		return err
	}
	inner, err := filepath.Glob(filepath.Join(pages, "internals", "*.md"))
	if err != nil {
		return err
	}
	for _, name := range append(names, inner...) {
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		if filled := fill(string(text), all); filled != string(text) {
			if err := os.WriteFile(name, []byte(filled), 0o644); err != nil {
				return err
			}
		}
	}
	return nil
}

// fill replaces the tables in the text of a page by those of the run. If the run has no figures for
// a table, the table stays as it is.
func fill(text string, all run) string {
	for _, c := range charts {
		text = fillOne(text, c.file, c.table(all))
	}
	for _, s := range summaries {
		text = fillOne(text, s.name, s.write(all))
	}
	return text
}

// fillOne replaces the table with one mark.
func fillOne(text, mark, table string) string {
	first := fmt.Sprintf(tableBegin, mark)
	before, rest, ok := strings.Cut(text, first)
	_, after, closed := strings.Cut(rest, tableEnd)
	if !ok || !closed || table == "" {
		return text
	}
	return before + first + "\n" + table + "\n" + tableEnd + after
}
