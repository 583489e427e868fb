package padlock_test

import (
	"errors"
	"fmt"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/stores/memstore"
)

// Two servers take locks for clients. A client makes a token for each piece of work, and sends the
// same request again if no reply came, perhaps to the other server.
func ExampleToken() {
	store := memstore.New()
	defer store.Close()
	one, two := padlock.New(store), padlock.New(store, padlock.KeepStoreOpen())
	defer one.Close(ctx)
	defer two.Close(ctx)

	const token = "restock-17.4f9c2e"
	lock, err := one.TryAcquire(ctx, "shelf 17", padlock.Token(token))
	if err != nil {
		fmt.Println(err)
		return
	}
	again, err := two.TryAcquire(ctx, "shelf 17", padlock.Token(token)) // the reply of one got lost
	fmt.Println("the same hold:", err == nil && again.Fence() == lock.Fence())

	_, err = two.TryAcquire(ctx, "shelf 17", padlock.Token("inventory-17.08b1d7"))
	fmt.Println("another client is refused:", errors.Is(err, padlock.ErrHeld))
	fmt.Println(again.Release())
	// Output:
	// the same hold: true
	// another client is refused: true
	// <nil>
}
