package httpstore_test

import (
	"context"
	"fmt"
	"log"
	"net/http/httptest"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/observe/padlockapi"
	"github.com/padlock-go/padlock/stores/httpstore"
	"github.com/padlock-go/padlock/stores/memstore"
)

// The server stands for padlock serve --api. It listens on this machine only, so it needs neither
// a token nor encryption.
func Example() {
	ctx := context.Background()
	api := padlockapi.Handler(memstore.New(), padlockapi.WithoutToken())
	defer api.Close()
	server := httptest.NewServer(api)
	defer server.Close()

	store, err := httpstore.Open(ctx, httpstore.Config{Servers: []string{server.URL}})
	if err != nil {
		log.Fatal(err)
	}
	locker := padlock.New(store)
	defer locker.Close(ctx)

	err = locker.Do(ctx, "nightly-report", func(ctx context.Context) error {
		fmt.Println("working alone")
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output: working alone
}
