package session_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"sync"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/stores/memstore"
	"github.com/padlock-go/padlock/web/session"
	"github.com/padlock-go/padlock/web/session/sessionstore"
)

// shop is a small server: a cart that loses nothing when two tabs add to it at
// once, a login, and a logout that holds.
type shop struct{ sessions *session.Manager }

func (s *shop) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /cart/{item}", s.add)
	mux.HandleFunc("POST /login/{user}", s.login)
	mux.HandleFunc("POST /logout", s.logout)
	// A page that only reads never waits for anybody.
	mux.Handle("GET /", s.sessions.With(session.ReadOnly)(http.HandlerFunc(s.page)))
	return s.sessions.Middleware(mux)
}

// add counts the item atomically, so requests at the same time do not conflict. If an error is not
// handled, the answer is 503 all the same.
func (s *shop) add(w http.ResponseWriter, r *http.Request) {
	ses := session.From(r.Context())
	if _, err := ses.Incr(r.Context(), "cart:"+r.PathValue("item"), 1); err != nil {
		return
	}
	if err := ses.Flash("notice", "added "+r.PathValue("item")); err != nil {
		return
	}
	w.WriteHeader(http.StatusNoContent) // the session is saved before the answer is sent
}

func (s *shop) login(w http.ResponseWriter, r *http.Request) {
	ses := session.From(r.Context())
	if err := ses.Regenerate(r.Context()); err != nil { // prevents session fixation
		return
	}
	ses.Put("user", r.PathValue("user"))
}

func (s *shop) logout(w http.ResponseWriter, r *http.Request) {
	session.From(r.Context()).Destroy(r.Context())
}

func (s *shop) page(w http.ResponseWriter, r *http.Request) {
	ses := session.From(r.Context())
	user, err := session.Get[string](ses, "user")
	if err != nil {
		return
	}
	apples, _ := session.Get[int](ses, "cart:apple")
	fmt.Fprintf(w, "user %q, %d apples\n", user, apples)
}

// A complete server, and what a browser sees of it.
func Example() {
	locker := padlock.New(memstore.New())
	defer locker.Close(context.Background())
	sessions, err := session.New(sessionstore.NewMemory(), session.Locker(locker),
		session.Cookie{Insecure: true}) // plain HTTP is for examples
	if err != nil {
		log.Fatal(err)
	}
	srv := httptest.NewServer((&shop{sessions}).handler())
	defer srv.Close()

	jar, _ := cookiejar.New(nil)
	browser := &http.Client{Jar: jar}
	post := func(path string) {
		if res, err := browser.Post(srv.URL+path, "", nil); err == nil {
			res.Body.Close()
		}
	}
	look := func() {
		if res, err := browser.Get(srv.URL); err == nil {
			body, _ := io.ReadAll(res.Body)
			res.Body.Close()
			fmt.Print(string(body))
		}
	}
	post("/cart/apple")
	var tabs sync.WaitGroup
	for range 20 {
		tabs.Go(func() { post("/cart/apple") })
	}
	tabs.Wait()
	look()
	post("/login/bo")
	look()
	post("/logout")
	look()
	// Output:
	// user "", 21 apples
	// user "bo", 21 apples
	// user "", 0 apples
}

// Two doctors are on call and one of them must stay. Each request reads the other's key and writes
// its own, so neither request writes a key that it has read, and both doctors would leave. With
// Watch, the second request fails.
func ExampleSession_Watch() {
	sessions, _ := session.New(sessionstore.NewMemory())
	b := newBrowser(nil, sessions)
	b.do(func(s *session.Session) {
		s.Put("oncall:ann", true)
		s.Put("oncall:bob", true)
	})
	leave := func(s *session.Session, me, other string, then func()) {
		if there, err := session.Get[bool](s, "oncall:"+other); err != nil || !there {
			return
		}
		s.Watch("oncall:" + other)
		then()
		s.Put("oncall:"+me, false)
	}
	ann := b.do(func(s *session.Session) {
		leave(s, "ann", "bob", func() { // Bob's request runs in the middle of Ann's
			bob := b.twin().do(func(s *session.Session) { leave(s, "bob", "ann", func() {}) })
			fmt.Println("Bob:", bob)
		})
	})
	fmt.Println("Ann:", ann)
	// Output:
	// Bob: 200
	// Ann: 409
}

// A read-only page counts its visits in a short Update.
func ExampleSession_Update() {
	sessions, _ := session.New(sessionstore.NewMemory())
	b := newBrowser(nil, sessions)
	b.do(func(s *session.Session) { s.Put("visits", []string{"home"}) })
	b.do(func(s *session.Session) {
		err := s.Update(context.Background(), func(_ context.Context, tx *session.Session) error {
			visits, err := session.Get[[]string](tx, "visits")
			if err != nil {
				return err
			}
			return tx.Put("visits", append(visits, "cart"))
		})
		visits, _ := session.Get[[]string](s, "visits")
		fmt.Println(visits, err)
	}, session.ReadOnly)
	// Output: [home cart] <nil>
}

// A message is shown once, to the first request that asks for it.
func ExampleFlashes() {
	sessions, _ := session.New(sessionstore.NewMemory())
	b := newBrowser(nil, sessions)
	b.do(func(s *session.Session) {
		s.Flash("notice", "your order was placed")
		s.Flash("notice", "an e-mail is on its way")
	})
	for range 2 {
		b.do(func(s *session.Session) {
			texts, _ := session.Flashes[string](bg, s, "notice")
			fmt.Printf("%q\n", texts)
		})
	}
	// Output:
	// ["your order was placed" "an e-mail is on its way"]
	// []
}

// After a conflict the handler runs again with the changed session. Without the option the answer
// would be 409.
func ExampleRetryConflicts() {
	sessions, _ := session.New(sessionstore.NewMemory(), session.RetryConflicts(3))
	b := newBrowser(nil, sessions)
	b.do(func(s *session.Session) { s.Put("n", 1) })
	runs := 0
	status := b.do(func(s *session.Session) {
		runs++
		n, _ := session.Get[int](s, "n")
		if runs == 1 {
			b.twin().do(func(s *session.Session) { s.Put("n", 10) })
		}
		s.Put("n", n+1)
	})
	b.do(func(s *session.Session) {
		n, _ := session.Get[int](s, "n")
		fmt.Println(status, runs, n)
	})
	// Output: 200 2 11
}
