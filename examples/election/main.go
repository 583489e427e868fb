package main

import (
	"context"
	"log"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/election"
	"github.com/padlock-go/padlock/open"
	"github.com/padlock-go/padlock/stores/redisstore"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	store, err := open.FromEnv(ctx, open.Schemes(redisstore.Scheme())) // PADLOCK_STORE=redis://HOST
	if err != nil {
		log.Fatal(err)
	}
	locker := padlock.New(store)
	e := election.New(locker, "scheduler",
		election.LockOptions(padlock.TTL(15*time.Second)), // how long a dead leader keeps the lead
		election.OnError(func(err error) { log.Print(err) }),
	)
	http.Handle("/readyz", e.Ready())
	go http.ListenAndServe(os.Getenv("LISTEN"), nil)

	err = e.Run(ctx, schedule)
	end, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	locker.Close(end)
	if err != nil {
		log.Print(err)
	}
}

// schedule runs in one process at a time. It returns when ctx ends.
func schedule(ctx context.Context) error {
	fence, _ := padlock.FenceFrom(ctx)
	log.Print("leads with the fence ", fence)
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Second):
			// start what is due; send the fence with each write
		}
	}
}
