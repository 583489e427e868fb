// Command notes keeps notes for each visitor.
package main

import (
	"fmt"
	"log"
	"net"
	"net/http"
	"os"

	"github.com/gorilla/sessions"
)

var store = sessions.NewFilesystemStore("", []byte(os.Getenv("SESSION_KEY")))

func main() {
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
	log.Fatal(http.Serve(listener, mux))
}

func home(w http.ResponseWriter, r *http.Request) {
	s, _ := store.Get(r, "notes")
	user, _ := s.Values["user"].(string)
	text, _ := s.Values["note:"+r.FormValue("title")].(string)
	notices := s.Flashes()
	s.Save(r, w)
	fmt.Fprintf(w, "Hello %s. %v\n%s\n", user, notices, text)
}

func login(w http.ResponseWriter, r *http.Request) {
	s, _ := store.Get(r, "notes")
	s.Values["user"] = r.FormValue("user")
	s.AddFlash("You are logged in.")
	s.Save(r, w)
}

func note(w http.ResponseWriter, r *http.Request) {
	s, _ := store.Get(r, "notes")
	s.Values["note:"+r.FormValue("title")] = r.FormValue("text")
	s.Save(r, w)
}

func logout(w http.ResponseWriter, r *http.Request) {
	s, _ := store.Get(r, "notes")
	s.Options.MaxAge = -1
	s.Save(r, w)
}
