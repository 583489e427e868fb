package main

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/open"
)

func main() {
	ctx := context.Background()
	store, err := open.FromEnv(ctx) // files of this user; for servers see open.Schemes
	if err != nil {
		log.Fatal(err)
	}
	report := func(ctx context.Context) error { // ctx ends if the lock is lost
		fmt.Println("one process at a time")
		return ctx.Err()
	}
	err = padlock.New(store).Do(ctx, "nightly-report", report, padlock.Wait(time.Second))
	if err != nil {
		log.Fatal(err) // padlock.ErrHeld names the holder
	}
}
