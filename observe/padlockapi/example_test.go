package padlockapi_test

import (
	"fmt"
	"net/http/httptest"
	"strings"

	"github.com/padlock-go/padlock/observe/padlockapi"
	"github.com/padlock-go/padlock/stores/memstore"
)

// A program in any language takes a lock with one request. A real server gives Accept or Authorize.
func Example() {
	store := memstore.New()
	defer store.Close()
	api := padlockapi.Handler(store, padlockapi.WithoutToken())
	defer api.Close()

	for _, token := range []string{"token-of-the-first-client", "token-of-the-second-client"} {
		body := `{"name": "nightly-report", "token": "` + token + `", "ttl_ms": 30000}`
		r := httptest.NewRequest("POST", "/v1/acquire", strings.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		answer := httptest.NewRecorder()
		api.ServeHTTP(answer, r)
		fmt.Println(answer.Code)
	}
	// Output:
	// 200
	// 409
}
