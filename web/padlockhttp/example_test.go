package padlockhttp_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/stores/memstore"
	"github.com/padlock-go/padlock/web/padlockhttp"
)

func ExampleOneAtATime() {
	locker := padlock.New(memstore.New())
	defer locker.Close(context.Background())
	perCart := padlockhttp.OneAtATime{
		Locker: locker,
		Key:    func(r *http.Request) string { return "cart:" + r.PathValue("cart") },
	}
	mux := http.NewServeMux()
	mux.Handle("POST /carts/{cart}/checkout", perCart.Wrap(http.HandlerFunc(
		func(w http.ResponseWriter, r *http.Request) {
			// While this request is at work, another one for the same cart is refused.
			other := httptest.NewRecorder()
			if r.Header.Get("Other") == "" {
				again := httptest.NewRequest("POST", r.URL.Path, nil)
				again.Header.Set("Other", "yes")
				mux.ServeHTTP(other, again)
			}
			fmt.Fprintln(w, "paid; the other request got", other.Code)
		})))

	w := httptest.NewRecorder()
	mux.ServeHTTP(w, httptest.NewRequest("POST", "/carts/7/checkout", nil))
	fmt.Print(w.Code, " ", w.Body)
	// Output: 200 paid; the other request got 409
}
