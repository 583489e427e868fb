// Command notes keeps notes for each visitor.
package main

import (
	"fmt"
	"log"
	"net"
	"net/http"
	"time"

	"github.com/padlock-go/padlock/session"
	"github.com/padlock-go/padlock/session/sessionstore"
)

func main() {
	sessions, err := session.New(sessionstore.NewMemory(), session.IdleTimeout(20*time.Minute), session.Cookie{Insecure: true})
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
	notes := session.GetOr(s, "notes", 0)
	text := session.GetOr(s, "note:"+r.FormValue("title"), "")
	notice, _, _ := session.Take[string](r.Context(), s, "notice")
	fmt.Fprintf(w, "Hello %s. You have %d notes. %s\n%s\n", user, notes, notice, text)
}

func login(w http.ResponseWriter, r *http.Request) {
	s := session.From(r.Context())
	if err := s.Regenerate(r.Context()); err != nil {
		http.Error(w, "Please try again.", http.StatusServiceUnavailable)
		return
	}
	s.Put("user", r.FormValue("user"))
	s.Put("notice", "You are logged in.")
}

func note(w http.ResponseWriter, r *http.Request) {
	s := session.From(r.Context())
	s.Put("note:"+r.FormValue("title"), r.FormValue("text"))
	s.Incr(r.Context(), "notes", 1)
}

func logout(w http.ResponseWriter, r *http.Request) {
	if err := session.From(r.Context()).Destroy(r.Context()); err != nil {
		http.Error(w, "Please try again.", http.StatusServiceUnavailable)
	}
}
