// Command notes keeps notes for each visitor.
package main

import (
	"fmt"
	"log"
	"net"
	"net/http"

	"github.com/padlock-go/padlock/session"
	"github.com/padlock-go/padlock/session/sessionstore"
)

func main() {
	sessions, err := session.New(sessionstore.NewMemory(), session.Cookie{Insecure: true})
	if err != nil {
		log.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /", home)
	mux.HandleFunc("POST /login", login)
	mux.HandleFunc("POST /note", note)
	mux.HandleFunc("POST /logout", logout)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("http://" + listener.Addr().String())
	log.Fatal(http.Serve(listener, sessions.Middleware(mux)))
}

func home(w http.ResponseWriter, r *http.Request) {
	s := session.From(r.Context())
	user := session.GetOr(s, "user", "")
	text := session.GetOr(s, "note:"+r.FormValue("title"), "")
	notices, _ := session.Flashes[string](r.Context(), s, "notice")
	fmt.Fprintf(w, "Hello %s. %v\n%s\n", user, notices, text)
}

func login(w http.ResponseWriter, r *http.Request) {
	s := session.From(r.Context())
	s.Regenerate(r.Context())
	s.Put("user", r.FormValue("user"))
	s.Flash("notice", "You are logged in.")
}

func note(w http.ResponseWriter, r *http.Request) {
	s := session.From(r.Context())
	s.Put("note:"+r.FormValue("title"), r.FormValue("text"))
}

func logout(w http.ResponseWriter, r *http.Request) {
	session.From(r.Context()).Destroy(r.Context())
}
