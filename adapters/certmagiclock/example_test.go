package certmagiclock_test

import (
	"context"
	"fmt"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/adapters/certmagiclock"
	"github.com/padlock-go/padlock/stores/memstore"
)

// The locks of two servers on one store. In a server, certmagic calls these methods.
func Example() {
	ctx, store := context.Background(), memstore.New()
	web1 := certmagiclock.New(padlock.New(store))
	web2 := certmagiclock.New(padlock.New(store.Open()))

	fmt.Println(web1.TryLock(ctx, "issue_cert_example.org"))
	fmt.Println(web2.TryLock(ctx, "issue_cert_example.org"))
	fmt.Println(web1.Unlock(ctx, "issue_cert_example.org"))
	fmt.Println(web2.TryLock(ctx, "issue_cert_example.org"))
	// Output:
	// true <nil>
	// false <nil>
	// <nil>
	// true <nil>
}
