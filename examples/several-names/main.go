package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/open"
	"github.com/padlock-go/padlock/stores/redisstore"
)

func main() {
	// Without NotifyContext, SIGTERM ends the process before its deferred calls (docs/shutdown.md).
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	if err := run(ctx); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) error {
	// PADLOCK_STORE is a URL such as redis://locks.example.org. Without one, open.Store fails.
	store, err := open.Store(ctx, os.Getenv("PADLOCK_STORE"), open.Schemes(redisstore.Scheme()))
	if err != nil {
		return err
	}
	locker := padlock.New(store)
	defer func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		locker.Close(ctx)
	}()

	names := []string{"orders", "stock"} // in any order
	err = locker.DoAll(ctx, names, rebuild, padlock.Wait(time.Minute))
	var e *padlock.Error
	if errors.Is(err, padlock.ErrHeld) && errors.As(err, &e) {
		return fmt.Errorf("somebody else holds %s: %w", e.Name, err)
	}
	return err // rebuild may be done all the same: docs/errors.md ("Did the function of Do run?")
}

// rebuild runs while all locks are held. ctx ends when the first of them is lost.
func rebuild(ctx context.Context) error {
	fences := padlock.FencesFrom(ctx)
	log.Print("orders with the fence ", fences["orders"], ", stock with ", fences["stock"])
	return ctx.Err()
}
