package zkstore_test

import (
	"context"
	"fmt"
	"log"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/stores/zkstore"
)

// A store needs the addresses of the members of the ensemble, and keeps one session.
func Example() {
	ctx := context.Background()
	store, err := zkstore.Open(ctx, zkstore.Config{Servers: []string{"zk1:2181", "zk2:2181", "zk3:2181"}})
	if err != nil {
		log.Fatal(err)
	}
	locker := padlock.New(store)
	defer locker.Close(ctx)

	err = locker.Do(ctx, "nightly-report", func(ctx context.Context) error {
		fence, _ := padlock.FenceFrom(ctx)
		fmt.Println("write the report with fence", fence)
		return nil // ctx ends if the lock is lost
	})
	if err != nil {
		log.Print(err)
	}
}
