// Command plots draws the charts of the pages and of the README as SVG files, and writes the tables
// that belong to them. It reads the output of benchmarks that ran with -json. `make plots` draws
// the published runs. `make plots PLOTSFLAGS="-merge run.json"` adds another run to the published
// ones and then draws all of them.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	from := flag.String("from", published, "the `file` with a run of the benchmarks, made with -json")
	to := flag.String("to", "../../docs/images", "the `directory` into which the pictures are written")
	added := flag.String("merge", "", "put the medians of this `file`, a run, into published.json first")
	keep := flag.Bool("keep-rows", false, "with -merge, keep the published rows that the run does not have")
	flag.Parse()
	if err := publish(*from, *to, *added, *keep); err != nil {
		fmt.Fprintln(os.Stderr, "plots:", err)
		os.Exit(1)
	}
}

const (
	published = "published.json"
	docs      = "../../docs"
)

// publish draws the charts of the run in the file runFile. If newRun is not empty, it is the name
// of a file with another run, which publish first merges into published.json. If runFile is
// published.json, publish also writes the tables of the pages.
func publish(runFile, to, newRun string, keepRows bool) error {
	if newRun != "" {
		if err := merge(published, newRun, keepRows); err != nil {
			return err
		}
	}
	if err := drawAll(runFile, to); err != nil || runFile != published {
		return err
	}
	all, err := readFile(published)
	if err != nil {
		return err
	}
	return writeTables(all, docs)
}

// drawAll draws every chart whose experiments are in the run.
func drawAll(from, to string) error {
	run, err := readFile(from)
	if err != nil {
		return fmt.Errorf("%s: %w", from, err)
	}
	for _, c := range charts {
		series := c.collect(run)
		if len(series) == 0 {
			fmt.Fprintf(os.Stderr, "plots: %s is left out: %s has none of its experiments\n", c.file, from)
			continue
		}
		if err := os.WriteFile(filepath.Join(to, c.file), c.picture(series), 0o644); err != nil {
			return fmt.Errorf("%s: %w", c.file, err)
		}
	}
	return nil
}
