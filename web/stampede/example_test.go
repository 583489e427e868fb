package stampede_test

import (
	"context"
	"fmt"
	"log"
	"sync"
	"sync/atomic"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/stores/memstore"
	"github.com/padlock-go/padlock/web/stampede"
)

// A hundred requests find no value. One of them makes it, and the others get the same value.
func Example() {
	ctx := context.Background()
	locker := padlock.New(memstore.New()) // a store that all processes share, such as Redis
	defer locker.Close(ctx)

	var renders atomic.Int32
	render := func(ctx context.Context, path string) (string, error) {
		renders.Add(1)
		return "the page " + path, nil
	}
	pages, err := stampede.New(locker, stampede.NewMemory(), "pages", render,
		stampede.Fresh(time.Minute), stampede.Stale(10*time.Minute))
	if err != nil {
		log.Fatal(err)
	}
	defer pages.Close(ctx)

	var requests sync.WaitGroup
	for range 100 {
		requests.Go(func() {
			if _, err := pages.Get(ctx, "/front"); err != nil {
				log.Print(err)
			}
		})
	}
	requests.Wait()
	page, err := pages.Get(ctx, "/front")
	fmt.Println(page, err)
	fmt.Println("renders:", renders.Load())
	// Output:
	// the page /front <nil>
	// renders: 1
}
