package load_test

import (
	"context"
	"fmt"
	"log"
	"net/http/httptest"

	"github.com/padlock-go/padlock/web/session"
	"github.com/padlock-go/padlock/web/session/sessionstore"
	"github.com/padlock-go/padlock/web/session/sessiontest/load"
)

// Twenty requests of one browser write twenty keys at the same time, and the session keeps all.
func Example() {
	ctx := context.Background()
	sessions, err := session.New(sessionstore.NewMemory(), session.Cookie{Insecure: true})
	if err != nil {
		log.Fatal(err)
	}
	server := httptest.NewServer(load.Handler(sessions))
	defer server.Close()

	browser := load.NewClient(server.URL, 20)
	defer browser.Close()
	if err := browser.Start(ctx); err != nil {
		log.Fatal(err)
	}
	browser.Run(ctx, load.Set(20, 0, 0))
	kept, err := browser.Kept(ctx, 20)
	fmt.Println(kept, err)
	// Output: 20 <nil>
}
