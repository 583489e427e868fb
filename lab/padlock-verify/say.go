package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/padlock-go/padlock/internal/printable"
	"github.com/padlock-go/padlock/open"
)

// say prints a message on standard error.
func say(text string) { fmt.Fprintln(os.Stderr, "padlock-verify: "+printable.Message(text)) }

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
