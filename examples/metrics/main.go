package main

import (
	"context"
	"log"
	"log/slog"
	"net/http"
	"os"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/observe/metrics"
	"github.com/padlock-go/padlock/stores/memstore"
)

func main() {
	figures := metrics.New()
	locker := padlock.New(memstore.New(),
		padlock.Observe(figures),
		padlock.Logger(slog.Default()), // losses and failed renewals; all else at Debug
	)
	http.Handle("/metrics", figures)
	err := http.ListenAndServe(os.Getenv("LISTEN"), nil) // docs/shutdown.md shows SIGTERM
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	locker.Close(ctx) // before log.Fatal, which skips deferred calls
	cancel()
	log.Fatal(err)
}
