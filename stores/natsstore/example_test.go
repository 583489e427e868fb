package natsstore_test

import (
	"context"
	"fmt"
	"log"

	"github.com/nats-io/nats.go"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/stores/natsstore"
)

// The command padlock schema has made the bucket.
func Example() {
	ctx := context.Background()
	store, err := natsstore.Open(ctx, natsstore.Config{
		Servers: []string{"nats-1.example", "nats-2.example", "nats-3.example"}, Bucket: "locks",
		Options: []nats.Option{nats.UserCredentials("/run/secrets/app.creds")},
	})
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
