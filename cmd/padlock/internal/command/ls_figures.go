package command

import (
	"bytes"
	"fmt"
	"io"

	"github.com/padlock-go/padlock/cmd/padlock/internal/texts"
	"github.com/padlock-go/padlock/observe/sampler"
)

// writeFigures writes figures of the names in the text format of Prometheus. The place is the label
// of the store, or "".
func writeFigures(w io.Writer, names []sampler.Name, place string) error {
	var held, waiting bytes.Buffer
	held.WriteString("# HELP padlock_held 1 if the name or one of its slots is held or cools down.\n# TYPE padlock_held gauge\n")
	waiting.WriteString("# HELP padlock_waiters Callers that wait, where the store knows it.\n# TYPE padlock_waiters gauge\n")
	written := map[string]bool{}
	for i := range names {
		n := &names[i]
		label := texts.Label("name", n.Name)
		if place != "" {
			label += "," + texts.Label("place", place)
		}
		if written[label] {
			continue // Prometheus refuses a page that has the same labels twice
		}
		written[label] = true
		taken := 0
		if len(n.Holds) > 0 {
			taken = 1
		}
		fmt.Fprintf(&held, "padlock_held{%s} %d\n", label, taken)
		if n.Waiters >= 0 {
			fmt.Fprintf(&waiting, "padlock_waiters{%s} %d\n", label, n.Waiters)
		}
	}
	_, err := w.Write(append(held.Bytes(), waiting.Bytes()...))
	return err
}
