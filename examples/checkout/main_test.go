package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/padlocktest"
)

func TestCheckout(t *testing.T) {
	l, script := padlocktest.New(t)
	n := 0
	h := routes(l, func(w http.ResponseWriter, _ *http.Request) {
		n++
		fmt.Fprint(w, "charge ", n)
	})
	post := func(key string) (int, string) {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/carts/7/checkout", nil)
		if key != "" {
			r.Header.Set("Idempotency-Key", key)
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w.Code, w.Body.String()
	}
	if code, _ := post(""); code != http.StatusBadRequest {
		t.Errorf("without a key: %d", code)
	}
	for range 2 {
		if code, text := post(`"k1"`); code != http.StatusOK || text != "charge 1" {
			t.Errorf("%d %q", code, text)
		}
	}
	free := script.Hold("cart:7", padlock.Hold{})
	if code, _ := post(`"k2"`); code != http.StatusConflict {
		t.Errorf("a cart at which another server is at work: %d", code)
	}
	free()
	if code, text := post(`"k2"`); code != http.StatusOK || text != "charge 2" {
		t.Errorf("%d %q", code, text)
	}
}
