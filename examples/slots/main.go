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

	lock, err := locker.Acquire(ctx, "encoder", padlock.Slots(3), padlock.Wait(time.Minute))
	var held *padlock.HeldError
	if errors.As(err, &held) {
		return fmt.Errorf("%d others are encoding: %w", len(held.Holds), err)
	}
	if err != nil {
		return err
	}
	defer lock.Release()
	work, cancel := context.WithCancel(lock.Context()) // ends with the slot, and on SIGTERM
	defer cancel()
	defer context.AfterFunc(ctx, cancel)()
	return encode(work, fmt.Sprintf("/scratch/%d", lock.Slot()), os.Args[1:])
}

// encode stops when ctx ends, because then another process may have the slot.
func encode(ctx context.Context, directory string, films []string) error {
	return ctx.Err()
}
