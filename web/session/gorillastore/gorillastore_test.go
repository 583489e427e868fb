package gorillastore_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"sync"
	"testing"

	"github.com/gorilla/sessions"

	"github.com/padlock-go/padlock/web/session"
	"github.com/padlock-go/padlock/web/session/gorillastore"
	"github.com/padlock-go/padlock/web/session/sessionstore"
)

func newStore() *gorillastore.Store { return gorillastore.New(sessionstore.NewMemory()) }

// twoWrites lets two requests of one visitor write a key each. Both load the session before one of
// them saves it. It returns the session after that.
func twoWrites(t *testing.T, store sessions.Store) map[any]any {
	t.Helper()
	v := begin(t, store)
	one, two := v.load(), v.load()
	one.Values["one"], two.Values["two"] = 1, 2
	one.mustSave()
	two.mustSave()
	return v.load().Values
}

func TestTwoWritesAreKept(t *testing.T) {
	t.Parallel()
	want := map[any]any{"started": true, "one": 1, "two": 2}
	if got := twoWrites(t, newStore()); !reflect.DeepEqual(got, want) {
		t.Errorf("%v is left, want %v", got, want)
	}
}

// TestGorillaAloneLosesOne shows the loss that this package prevents, and that the test above can
// fail.
func TestGorillaAloneLosesOne(t *testing.T) {
	t.Parallel()
	got := twoWrites(t, sessions.NewFilesystemStore(t.TempDir(), []byte(strings.Repeat("k", 32))))
	if got["one"] != nil || got["two"] != 2 {
		t.Errorf("%v is left", got)
	}
}

func TestSameKeyIsRefused(t *testing.T) {
	t.Parallel()
	v := begin(t, newStore())
	one, two := v.load(), v.load()
	one.Values["n"], two.Values["n"], two.Values["other"] = 1, 2, 2
	one.mustSave()
	sent := v.cookie
	if err := two.save(); !errors.Is(err, session.ErrConflict) || session.Status(err) != http.StatusConflict {
		t.Error(err)
	}
	if v.cookie != sent {
		t.Error("a cookie was set although nothing was saved")
	}
	if got := v.load().Values; got["n"] != 1 || got["other"] != nil {
		t.Errorf("%v is left", got)
	}
	again := v.load() // as the visitor does, or the handler
	again.Values["n"] = again.Values["n"].(int) + 1
	again.mustSave()
	if n := v.load().Values["n"]; n != 2 {
		t.Errorf("then n is %v", n)
	}
}

func TestFlashes(t *testing.T) {
	t.Parallel()
	v := begin(t, newStore())
	var adds sync.WaitGroup
	for i := range 20 { // each request has loaded the same session
		o := v.load()
		o.AddFlash(i)
		o.AddFlash("in a list of its own", "errors")
		w := httptest.NewRecorder()
		adds.Go(func() {
			if err := o.Save(o.r, w); err != nil {
				t.Error(err)
			}
		})
	}
	adds.Wait()
	if got := v.load(); len(got.Flashes()) != 20 || len(got.Flashes("errors")) != 20 {
		t.Errorf("kept: %v", got.Values)
	}

	one, two, late := v.load(), v.load(), v.load()
	one.Flashes()
	two.Flashes()
	late.AddFlash("late")
	late.mustSave() // one and two have not seen it
	one.mustSave()
	if err := two.save(); !errors.Is(err, session.ErrConflict) {
		t.Errorf("two requests took the same messages: %v", err)
	}
	if got := v.load().Flashes(); !reflect.DeepEqual(got, []any{"late"}) {
		t.Errorf("%v is left", got)
	}
	late.AddFlash("later") // the session of late still has those that one has taken
	late.mustSave()
	late.Values["n"] = 1
	late.mustSave() // the messages that are gone do not come back
	if got := v.load().Flashes(); !reflect.DeepEqual(got, []any{"late", "later"}) {
		t.Errorf("%v is left", got)
	}
}

func TestDeletedStaysDeleted(t *testing.T) {
	t.Parallel()
	v := begin(t, newStore())
	late, logout := v.load(), v.load()
	logout.Options.MaxAge = -1
	logout.mustSave()
	if v.cookie.MaxAge >= 0 || v.cookie.Value != "" {
		t.Errorf("the cookie is %v", v.cookie)
	}
	late.Values["late"] = true
	if err := late.save(); !errors.Is(err, session.ErrDestroyed) {
		t.Error(err)
	}
	if o := v.load(); !o.IsNew || len(o.Values) != 0 {
		t.Errorf("after that: %v", o.Values)
	}
	logout.mustSave() // sessions.Save does that, when a handler has saved the session itself
	logout.Options.MaxAge = 60
	logout.mustSave()
	if logout.ID == late.ID || v.load().IsNew {
		t.Error("no new session under a new id")
	}
}

func TestOptions(t *testing.T) {
	t.Parallel()
	store := newStore()
	store.Options.Path, store.Options.Secure = "/app", true
	store.MaxAge(3600)
	v := begin(t, store)
	if c := v.cookie; c.MaxAge != 3600 || c.Path != "/app" || !c.Secure || !c.HttpOnly || c.SameSite != http.SameSiteLaxMode {
		t.Errorf("the cookie is %v", c)
	}
	o := v.load()
	o.Options.MaxAge = 0
	o.mustSave()
	if v.cookie.MaxAge != 0 || v.load().IsNew {
		t.Errorf("a session until the browser ends: %v", v.cookie)
	}
	if store.Options.MaxAge != 3600 {
		t.Error("the options of one session changed those of the store")
	}
}

// TestNewID: a program that sets ID to "" at a login gets a new id, and the old one is worth
// nothing.
func TestNewID(t *testing.T) {
	t.Parallel()
	v := begin(t, newStore())
	old := *v.cookie
	late, login, other := v.load(), v.load(), v.load()
	other.Values["other"] = 1
	other.mustSave() // after the login has loaded the session, and kept all the same
	login.ID = ""
	login.Values["user"] = "Bo"
	login.mustSave()
	if v.cookie.Value == old.Value || v.cookie.Value != login.ID {
		t.Error("the id is the same")
	}
	if got := v.load().Values; got["user"] != "Bo" || got["other"] != 1 || got["started"] != true {
		t.Errorf("the session has %v", got)
	}
	late.Values["late"] = 1
	if err := late.save(); !errors.Is(err, session.ErrDestroyed) {
		t.Error(err)
	}
	planted := &visitor{t: t, store: v.store, cookie: &old}
	if o := planted.load(); !o.IsNew {
		t.Errorf("the old id shows %v", o.Values)
	}
}

func TestForeignIDsAreNotAdopted(t *testing.T) {
	t.Parallel()
	for _, id := range []string{"mine", strings.Repeat("A", 43), strings.Repeat("B", 43), ""} {
		v := &visitor{t: t, store: newStore(), cookie: &http.Cookie{Name: "shop", Value: id}}
		o := v.load()
		if !o.IsNew || o.ID != "" {
			t.Errorf("%q is taken for a session", id)
		}
		o.Values["n"] = 1
		if o.mustSave(); v.cookie.Value == id {
			t.Errorf("%q is adopted", id)
		}
	}
	v := begin(t, newStore())
	v.cookie.Name = "admin" // the id of one kind of session as that of another
	if s, err := v.store.Get(v.request(), "admin"); err != nil || !s.IsNew {
		t.Error(s.Values, err)
	}
}

func TestValues(t *testing.T) {
	t.Parallel()
	v := begin(t, newStore())
	want := map[any]any{
		"started": true, 42: "int", number(42): "number", point{1, 2}: "point", "": "empty", "\x00x": "NUL",
		"map": map[string]int{"n": 1}, "pointer": &shape{3},
	}
	o := v.load()
	for key, value := range want {
		o.Values[key] = value
	}
	o.mustSave()
	if got := v.load().Values; !reflect.DeepEqual(got, want) {
		t.Fatalf("got %v, want %v", got, want)
	}
	o.Values["map"].(map[string]int)["n"]++ // changed in place, after it was saved
	o.Values["pointer"].(*shape).Sides++
	delete(o.Values, 42)
	o.mustSave()
	o = v.load()
	if o.Values["map"].(map[string]int)["n"] != 2 || o.Values["pointer"].(*shape).Sides != 4 || o.Values[42] != nil || len(o.Values) != len(want)-1 {
		t.Errorf("then %v", o.Values)
	}
	for _, bad := range []map[any]any{{nil: 1}, {strings.Repeat("x", 1025): 1}, {"f": func() {}}, {"big": strings.Repeat("x", gorillastore.MaxSize)}} {
		o := v.load()
		for key, value := range bad {
			o.Values[key] = value
		}
		if err := o.save(); err == nil {
			t.Error("it was saved")
		}
	}
}

func TestGetAndSaveAll(t *testing.T) {
	t.Parallel()
	store := newStore()
	r, w := httptest.NewRequest(http.MethodGet, "/", nil), httptest.NewRecorder()
	for _, name := range []string{"one", "two", "one"} {
		s, err := store.Get(r, name)
		noError(t, err)
		n, _ := s.Values["n"].(int)
		s.Values["n"] = n + 1
	}
	noError(t, sessions.Save(r, w))
	r = httptest.NewRequest(http.MethodGet, "/", nil)
	for _, c := range w.Result().Cookies() {
		r.AddCookie(c)
	}
	for name, want := range map[string]int{"one": 2, "two": 1} {
		if s, err := store.New(r, name); err != nil || s.Values["n"] != want || s.IsNew {
			t.Errorf("%s has %v: %v", name, s.Values, err)
		}
	}
}

// TestUnreachable: a program that ignores the error of Get does not log the visitor out.
func TestUnreachable(t *testing.T) {
	t.Parallel()
	f := &failing{Store: sessionstore.NewMemory()}
	v := begin(t, gorillastore.New(f))
	sent := v.cookie
	f.load = sessionstore.ErrUnavailable
	r := v.request()
	s, err := v.store.Get(r, "shop")
	if !errors.Is(err, session.ErrUnavailable) || s == nil {
		t.Fatal(s, err)
	}
	s.Values["n"] = 1
	if err := (visit{s, v, r}).save(); session.Status(err) != http.StatusServiceUnavailable || v.cookie != sent {
		t.Error(err, v.cookie)
	}
	f.load, f.commit = nil, sessionstore.ErrUnavailable
	o := v.load()
	o.Values["n"] = 1
	if err := o.save(); !errors.Is(err, session.ErrUnavailable) || v.cookie != sent {
		t.Error(err, v.cookie)
	}
	f.commit = nil
	o.mustSave() // the same session, once more
	if v.load().Values["n"] != 1 {
		t.Error("it is not saved")
	}
}

// TestUnreadable: a session that cannot be read is replaced, under a new id.
func TestUnreadable(t *testing.T) {
	t.Parallel()
	f := &failing{Store: sessionstore.NewMemory()}
	v := begin(t, gorillastore.New(f))
	old := v.cookie.Value
	f.load = sessionstore.ErrRefused
	r := v.request()
	s, err := v.store.Get(r, "shop")
	if !errors.Is(err, session.ErrRefused) || !s.IsNew {
		t.Error(err)
	}
	(visit{s, v, r}).mustSave()
	if v.cookie.Value == old {
		t.Error("the id is the same")
	}
}

func TestUntracked(t *testing.T) {
	t.Parallel()
	v := begin(t, newStore())
	o := v.load()
	twin := *o.Session
	for _, s := range []*sessions.Session{&twin, sessions.NewSession(v.store, "shop")} {
		if err := s.Save(v.request(), httptest.NewRecorder()); !errors.Is(err, gorillastore.ErrUntracked) {
			t.Error(err)
		}
	}
}

// shared is a store whose sessions belong to another program, too.
type shared struct{ sessionstore.Store }

func (shared) Traits() sessionstore.Traits { return sessionstore.Traits{CommitsNeedLock: true} }

func TestSharedWithPHP(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("New accepts a store that needs a lock")
		}
	}()
	gorillastore.New(shared{})
}
