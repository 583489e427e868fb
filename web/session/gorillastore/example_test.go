package gorillastore_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/padlock-go/padlock/web/session"
	"github.com/padlock-go/padlock/web/session/gorillastore"
	"github.com/padlock-go/padlock/web/session/sessionstore"
)

func Example() {
	store := gorillastore.New(sessionstore.NewMemory()) // the line that changes
	handler := func(w http.ResponseWriter, r *http.Request) {
		s, err := store.Get(r, "shop")
		if err == nil {
			visits, _ := s.Values["visits"].(int)
			s.Values["visits"] = visits + 1
			err = s.Save(r, w)
		}
		if errors.Is(err, session.ErrConflict) { // another request of this visitor was faster
			http.Redirect(w, r, r.URL.Path, http.StatusSeeOther)
			return
		}
		if err != nil {
			http.Error(w, "Please try again.", session.Status(err))
			return
		}
		fmt.Fprintf(w, "visit %d", s.Values["visits"])
	}
	w := httptest.NewRecorder()
	handler(w, httptest.NewRequest(http.MethodGet, "/", nil))
	fmt.Println(w.Body)
	// Output: visit 1
}
