package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/stores/redisstore"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	store, err := redisstore.Open(ctx, redisstore.Config{Addrs: []string{"localhost:6379"}})
	if err != nil {
		log.Fatal(err)
	}
	report := func(ctx context.Context) error {
		fmt.Println("one process at a time")
		select {
		case <-time.After(5 * time.Second): // your work
		case <-ctx.Done(): // ctrl-C, SIGTERM, or the lock is lost
		}
		return ctx.Err()
	}
	// Do waits for a second here; without Wait, until the lock is free. TryDo does not wait.
	err = padlock.New(store).Do(ctx, "nightly-report", report, padlock.Wait(time.Second))
	if err != nil && ctx.Err() == nil { // ctrl-C and SIGTERM are no failure
		log.Fatal(err) // lock is held by web-3:4127 since …
	}
}
