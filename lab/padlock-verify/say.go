package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/padlock-go/padlock/internal/printable"
	"github.com/padlock-go/padlock/open"
)

// note is a message on standard error.
type note struct {
	Event   string `json:"event"`
	Message string `json:"message"`
	Exit    int    `json:"exit,omitempty"`
}

// say prints a note. A failure to print it is ignored, because it could not be reported.
func (v *verification) say(n note) {
	if v.json {
		_ = json.NewEncoder(os.Stderr).Encode(n)
		return
	}
	fmt.Fprintln(os.Stderr, "padlock-verify: "+printable.Message(n.Message))
}

// place returns the name of the store for a sentence, without secrets.
func (v *verification) place() string { return "the store " + open.Redacted(v.url, schemes) }

// endable returns a context that ends when this program gets a signal to end. The second such
// signal ends the program and its workers.
func endable(ctx context.Context) (context.Context, context.CancelFunc) {
	ends := []os.Signal{syscall.SIGTERM}
	for _, s := range []os.Signal{os.Interrupt, syscall.SIGHUP} {
		if !signal.Ignored(s) { // an ignored signal, as with nohup, stays ignored
			ends = append(ends, s)
		}
	}
	early, stop := signal.NotifyContext(ctx, ends...)
	context.AfterFunc(early, stop)
	return early, stop
}
