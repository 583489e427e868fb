// Command plots draws the charts of docs/performance.md and of the README as SVG files. It reads
// the output of benchmarks that ran with -json. `make plots` draws the published runs.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	from := flag.String("from", "published.json", "the `file` with a run of the benchmarks, made with -json")
	to := flag.String("to", "../../docs/images", "the `directory` into which the pictures are written")
	flag.Parse()
	if err := drawAll(*from, *to); err != nil {
		fmt.Fprintln(os.Stderr, "plots:", err)
		os.Exit(1)
	}
}

// drawAll draws every chart whose experiments are in the run.
func drawAll(from, to string) error {
	f, err := os.Open(from)
	if err != nil {
		return err
	}
	defer f.Close()
	run, err := readRun(f)
	if err != nil {
		return fmt.Errorf("%s: %w", from, err)
	}
	for _, c := range charts {
		series := c.collect(run)
		if len(series) == 0 {
			fmt.Fprintf(os.Stderr, "plots: %s is left out: %s has none of its experiments\n", c.file, from)
			continue
		}
		text, err := c.draw(series)
		if err == nil {
			err = os.WriteFile(filepath.Join(to, c.file), text, 0o644)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", c.file, err)
		}
	}
	return nil
}
