package padlockweb_test

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/observe/padlockweb"
	"github.com/padlock-go/padlock/stores/memstore"
)

// The page asks each visitor for a token. A program reads the tokens with OpenTokens.
func Example() {
	locker := padlock.New(memstore.New())
	defer locker.Close(context.Background())
	tokens, err := padlockweb.ParseTokens([]byte("ann a-secret-of-twenty-letters read\n"))
	if err != nil {
		log.Fatal(err)
	}
	web := padlockweb.Handler(locker, padlockweb.Accept(tokens))
	defer web.Close()
	mux := http.NewServeMux()
	mux.Handle("/locks/", http.StripPrefix("/locks", web))

	for _, token := range []string{"a wrong token", "a-secret-of-twenty-letters"} {
		r := httptest.NewRequest("GET", "/locks/api/locks", nil)
		r.Header.Set("Authorization", "Bearer "+token)
		page := httptest.NewRecorder()
		mux.ServeHTTP(page, r)
		fmt.Println(page.Code)
	}
	// Output:
	// 401
	// 200
}
