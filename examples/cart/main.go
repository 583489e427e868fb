package main

import (
	"fmt"
	"log"
	"net/http"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/stores/memstore"
	"github.com/padlock-go/padlock/web/session"
	"github.com/padlock-go/padlock/web/session/sessionstore"
)

func main() {
	locker := padlock.New(memstore.New()) // locks: any store of padlock
	sessions, err := session.New(sessionstore.NewMemory(), session.Locker(locker),
		session.Exclusive,              // one request of a visitor at a time, because addToCart reads and then writes
		session.Cookie{Insecure: true}) // for plain HTTP on your own machine; leave it out elsewhere
	if err != nil {
		log.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /cart", addToCart)
	log.Fatal(http.ListenAndServe("localhost:8080", sessions.Middleware(mux)))
}

func addToCart(w http.ResponseWriter, r *http.Request) {
	s := session.From(r.Context())
	cart, err := session.Get[[]string](s, "cart")
	if err != nil {
		return // the answer is 503
	}
	cart = append(cart, r.FormValue("item"))
	s.Put("cart", cart)
	fmt.Fprintln(w, cart)
}
