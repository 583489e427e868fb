package election_test

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"os/signal"
	"syscall"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/election"
	"github.com/padlock-go/padlock/stores/memstore"
)

// schedule works until ctx ends.
func schedule(ctx context.Context) error {
	fence, _ := padlock.FenceFrom(ctx)
	fmt.Println("leads with a fence:", fence > 0)
	return nil // finished; a scheduler would work until ctx ends
}

func Example() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	locker := padlock.New(memstore.New()) // a store that all processes share, such as Redis
	defer locker.Close(ctx)

	e := election.New(locker, "scheduler", election.OnError(func(err error) { log.Print(err) }))
	http.Handle("/readyz", e.Ready())
	if err := e.Run(ctx, schedule); err != nil {
		log.Fatal(err)
	}
	// Output: leads with a fence: true
}
