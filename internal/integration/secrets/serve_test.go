//go:build !race

package secrets

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/observe/padlockapi"
	"github.com/padlock-go/padlock/observe/padlockweb"
	"github.com/padlock-go/padlock/stores/memstore"
)

// The handlers of `padlock serve` show neither a token of their visitors nor the token of a hold.
func TestServe(t *testing.T) {
	tokens, err := padlockweb.ParseTokens([]byte("ann " + marker + "-visitor acquire,break\n"))
	noError(t, err)
	store := memstore.New()
	api := padlockapi.Handler(store, padlockapi.Accept(tokens))
	defer api.Close()
	web := padlockweb.Handler(padlock.New(store), padlockweb.Accept(tokens))
	defer web.Close()
	body := strings.NewReader(fmt.Sprintf(`{"name":"job","token":%q}`, marker+"-hold"))
	q := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/v1/acquire", body)
	q.Host = "127.0.0.1"
	q.Header.Set("Content-Type", "application/json")
	q.Header.Set("Authorization", "Bearer "+marker+"-visitor")
	got := httptest.NewRecorder()
	api.ServeHTTP(got, q)
	if got.Code != http.StatusOK {
		t.Fatalf("%d %s", got.Code, got.Body)
	}
	noneShown(t, map[string]any{"API": api, "Web": web, "Tokens": tokens})
}
