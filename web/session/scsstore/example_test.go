package scsstore_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/alexedwards/scs/v2"

	"github.com/padlock-go/padlock/web/session/scsstore"
	"github.com/padlock-go/padlock/web/session/sessionstore"
)

func Example() {
	manager := scs.New()
	manager.Store, manager.ErrorFunc = scsstore.New(sessionstore.NewMemory()), scsstore.ErrorFunc
	mux := http.NewServeMux()
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		visits := manager.GetInt(r.Context(), "visits") + 1
		manager.Put(r.Context(), "visits", visits)
		fmt.Fprintln(w, "visit", visits)
	})
	handler := scsstore.Middleware(manager.LoadAndSave(mux))

	request := httptest.NewRequest("GET", "/", nil)
	for range 2 {
		page := httptest.NewRecorder()
		handler.ServeHTTP(page, request)
		fmt.Print(page.Body)
		request = httptest.NewRequest("GET", "/", nil)
		for _, cookie := range page.Result().Cookies() {
			request.AddCookie(cookie)
		}
	}
	// Output:
	// visit 1
	// visit 2
}
