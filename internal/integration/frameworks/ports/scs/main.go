// Command notes keeps notes for each visitor.
package main

import (
	"fmt"
	"log"
	"net"
	"net/http"
	"time"

	"github.com/alexedwards/scs/v2"
)

var sessions = scs.New()

func main() {
	sessions.IdleTimeout = 20 * time.Minute
	sessions.Cookie.Secure = false // plain HTTP, for this example
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
	log.Fatal(http.Serve(listener, sessions.LoadAndSave(mux)))
}

func home(w http.ResponseWriter, r *http.Request) {
	ctx := r.Context()
	user := sessions.GetString(ctx, "user")
	notes := sessions.GetInt(ctx, "notes")
	text := sessions.GetString(ctx, "note:"+r.FormValue("title"))
	notice := sessions.PopString(ctx, "notice")
	fmt.Fprintf(w, "Hello %s. You have %d notes. %s\n%s\n", user, notes, notice, text)
}

func login(w http.ResponseWriter, r *http.Request) {
	ctx := r.Context()
	if err := sessions.RenewToken(ctx); err != nil {
		http.Error(w, "Please try again.", http.StatusServiceUnavailable)
		return
	}
	sessions.Put(ctx, "user", r.FormValue("user"))
	sessions.Put(ctx, "notice", "You are logged in.")
}

func note(w http.ResponseWriter, r *http.Request) {
	ctx := r.Context()
	sessions.Put(ctx, "note:"+r.FormValue("title"), r.FormValue("text"))
	sessions.Put(ctx, "notes", sessions.GetInt(ctx, "notes")+1)
}

func logout(w http.ResponseWriter, r *http.Request) {
	if err := sessions.Destroy(r.Context()); err != nil {
		http.Error(w, "Please try again.", http.StatusServiceUnavailable)
	}
}
