package all_test

import (
	"context"
	"log"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/open"
	"github.com/padlock-go/padlock/open/all"
	"github.com/padlock-go/padlock/stores/redisstore"
)

// A program that may keep its locks anywhere, as PADLOCK_STORE says.
func ExampleFromEnv() {
	ctx := context.Background()
	store, err := all.FromEnv(ctx)
	if err != nil {
		log.Fatal(err)
	}
	locker := padlock.New(store)
	defer locker.Close(ctx)
}

// A program that links no client besides that of Redis. Its locks may be in Redis, or in files on a
// developer's machine.
func Example_redisAlone() {
	ctx := context.Background()
	store, err := open.FromEnv(ctx, open.Schemes(redisstore.Scheme()))
	if err != nil {
		log.Fatal(err)
	}
	locker := padlock.New(store)
	defer locker.Close(ctx)
}
