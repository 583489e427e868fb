package sampler_test

import (
	"context"
	"fmt"
	"log"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/observe/sampler"
	"github.com/padlock-go/padlock/stores/memstore"
)

// A Sampler reads the store, so it also sees the locks of other processes.
func Example() {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	locker := padlock.New(memstore.New())
	defer locker.Close(context.Background())
	lock, err := locker.Acquire(ctx, "nightly-report", padlock.Label("report of May"))
	if err != nil {
		log.Fatal(err)
	}
	defer lock.Release()

	s := sampler.New(locker)
	go s.Run(ctx)
	snap, err := s.Next(ctx, 0) // waits for the first sample
	if err != nil {
		log.Fatal(err)
	}
	for _, row := range snap.Names {
		fmt.Println(row.Name, row.State, row.Holds[0].Label)
	}
	// Output: nightly-report held report of May
}
