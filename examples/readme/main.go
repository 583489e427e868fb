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
	"github.com/padlock-go/padlock/stores/filestore"
)

func main() {
	// Without NotifyContext, SIGTERM ends the process before its deferred calls.
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	if err := run(ctx); err != nil {
		log.Fatal(err) // not in run: log.Fatal would skip its deferred calls
	}
}

func run(ctx context.Context) error {
	store, err := filestore.Open(os.TempDir() + "/example-locks") // a lasting directory in real use
	if err != nil {
		return err
	}
	locker := padlock.New(store)
	defer func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		locker.Close(ctx) // releases every lock that is still held
	}()

	// Do waits for the lock, at most five seconds, and runs the function under it.
	err = locker.Do(ctx, "invoice:42", func(ctx context.Context) error {
		fmt.Println("one process at a time") // ctx ends if the lock is lost
		return ctx.Err()
	}, padlock.Wait(5*time.Second))
	if err != nil {
		return err
	}

	// TryAcquire does not wait.
	lock, err := locker.TryAcquire(ctx, "invoice:42")
	if errors.Is(err, padlock.ErrHeld) {
		fmt.Println("somebody else has it:", err)
		return nil
	}
	if err != nil {
		return err
	}
	defer lock.Release()
	fmt.Println("locked", lock.Name())
	return nil
}
