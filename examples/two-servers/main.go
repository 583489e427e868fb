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
	err := run(ctx)
	if ctx.Err() != nil { // somebody asked for the end, which is no failure
		log.Print("stopped: ", err)
	} else if err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) error {
	// PADLOCK_STORE is a URL such as redis://locks.example.org
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

	err = locker.Do(ctx, "nightly-report", report, padlock.Wait(time.Second))
	if errors.Is(err, padlock.ErrHeld) {
		fmt.Println("the other server does it:", err)
		return nil
	}
	return err
}

// report is the work. Its ctx ends when the lock is lost, so it passes ctx on to everything.
func report(ctx context.Context) error {
	host, err := os.Hostname()
	if err != nil {
		return err
	}
	fmt.Println("report begins on", host)
	select {
	case <-time.After(3 * time.Second): // stands for work that takes a while
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	fmt.Println("report is done")
	return nil
}
