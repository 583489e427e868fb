// Command plots writes the tables of the benchmarks into the pages, and draws pictures: of these
// figures, and of the questions in docs/which-store.md. The figures are in published.json. `make plots PLOTSFLAGS="-merge run.json"` first puts the medians of a run there,
// which was made with -json.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

func main() {
	added := flag.String("merge", "", "put the medians of this `file`, a run, into published.json first")
	flag.Parse()
	if err := publish(*added); err != nil {
		fmt.Fprintln(os.Stderr, "plots:", err)
		os.Exit(1)
	}
}

const (
	published = "published.json"
	docs      = "../../docs"
	images    = docs + "/images"
)

// publish merges a run, if there is one, and writes the tables and the pictures.
func publish(added string) error {
	all, err := read(published)
	if err != nil {
		return err
	}
	if added != "" {
		with, err := read(added)
		if err != nil {
			return err
		}
		if err := all.merge(with); err != nil {
			return fmt.Errorf("%s: %w", added, err)
		}
		if err := os.WriteFile(published, all.text(), 0o644); err != nil {
			return err
		}
	}
	for _, name := range pages {
		text, err := os.ReadFile(filepath.Join(docs, name))
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(docs, name), []byte(fill(string(text), all)), 0o644); err != nil {
			return err
		}
	}
	page, err := os.ReadFile(choicePage)
	if err == nil {
		err = os.WriteFile(choicePicture, []byte(drawChoice(string(page))), 0o644)
	}
	if err != nil {
		return err
	}
	for name, c := range charts {
		if picture := c.draw(all); picture != "" {
			if err := os.WriteFile(filepath.Join(images, name), []byte(picture), 0o644); err != nil {
				return err
			}
		}
	}
	return nil
}

// pages have tables between two marks. A mark names a summary, or the experiments whose names match
// a regular expression.
var pages = []string{"performance.md", "internals/performance-rows.md"}

var marks = regexp.MustCompile(`(?s)(<!-- make plots writes this table: (.*?) -->\n).*?(<!-- end of the table -->\n)`)

// fill replaces the tables in the text of a page by those of the run. If the run has no figures for
// a table, the table stays as it is.
func fill(text string, all run) string {
	return marks.ReplaceAllStringFunc(text, func(old string) string {
		m := marks.FindStringSubmatch(old)
		var table strings.Builder
		if s, ok := summaries[m[2]]; ok {
			io.WriteString(&table, s.write(all))
		} else if wanted, err := regexp.Compile(m[2]); err == nil {
			for _, r := range all {
				if wanted.MatchString(r.Name) {
					r.Print(&table, false)
				}
			}
		}
		if table.Len() == 0 {
			return old
		}
		return m[1] + "\n" + strings.TrimPrefix(table.String(), "\n") + "\n" + m[3]
	})
}
