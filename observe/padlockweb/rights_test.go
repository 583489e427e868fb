package padlockweb_test

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/observe/history"
	"github.com/padlock-go/padlock/observe/padlockweb"
)

// Each path answers each visitor as the rights say. /healthz and /readyz need no token.
func TestRights(t *testing.T) {
	past := history.Open(t.TempDir(), "", nil)
	record(t, past, history.Run{Name: "shop/a", Start: time.Now(), End: time.Now(), Slot: -1})
	s := newSite(t, padlockweb.Accept(tokens(t)), padlockweb.AllowBreak(), padlockweb.History(past))
	s.lock("shop/a", "other")
	reading := []string{"", "jobs", "jobs?q=shop", "name?n=shop/a", "api/locks", "metrics"}
	for token, want := range map[string]int{"": http.StatusUnauthorized, "wrong-0123456789abcdef": http.StatusUnauthorized, reader: http.StatusOK, shopOnly: http.StatusOK} {
		for _, path := range reading {
			if a := s.get(path, with(token)); a.StatusCode != want {
				t.Errorf("%q reads %q: %d, want %d", token, path, a.StatusCode, want)
			} else if want != http.StatusOK && strings.Contains(a.text, "shop/a") {
				t.Errorf("the refusal of %q shows a name: %s", path, a.text)
			}
		}
		if want != http.StatusOK {
			if status, _ := s.events("", with(token)); status != want {
				t.Errorf("%q opens a stream: %d", token, status)
			}
		}
	}
	for _, path := range []string{"healthz", "readyz", "login", "style.css", "live.js"} {
		if a := s.get(path); a.StatusCode != http.StatusOK {
			t.Errorf("%q needs a token: %d", path, a.StatusCode)
		}
	}
	if a := s.get("", header("Accept", "text/html")); a.StatusCode != http.StatusSeeOther || a.Header.Get("Location") != "login" {
		t.Errorf("a browser gets %d, %q", a.StatusCode, a.Header.Get("Location"))
	}
}

// A visitor without the right to read does not learn the address of the store.
func TestPlaceIsForReaders(t *testing.T) {
	s := newSite(t, padlockweb.Accept(tokens(t)), padlockweb.Place("redis://db7.internal"))
	for _, path := range []string{"login", "break?n=x", "nowhere"} {
		if a := s.get(path, header("Accept", "text/html")); strings.Contains(a.text, "db7") {
			t.Errorf("%q shows the store to everybody: %s", path, a.text)
		}
	}
	if a := s.ask(http.MethodPost, "login", form("token", "wrong-0123456789abcdef")); strings.Contains(a.text, "db7") {
		t.Errorf("a refused login shows the store: %s", a.text)
	}
	if a := s.get("", with(reader)); !strings.Contains(a.text, "redis://db7.internal") {
		t.Errorf("a reader does not see the store: %s", a.text)
	}
}

// A token file that other users can read is reported in the log, unless it has only hashes.
func TestTokenFileOthersCanRead(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the modes of files are those of Unix")
	}
	hashed := fmt.Sprintf("a sha256:%x read\n", sha256.Sum256([]byte(reader)))
	for what, c := range map[string]struct {
		text string
		mode os.FileMode
		want bool
	}{
		"secrets, mode 0644": {tokenFile, 0o644, true},
		"secrets, mode 0600": {tokenFile, 0o600, false},
		"secrets, mode 0640": {tokenFile, 0o640, false}, // a group is a choice
		"hashes, mode 0644":  {hashed, 0o644, false},
	} {
		path := filepath.Join(t.TempDir(), "tokens")
		if err := errors.Join(os.WriteFile(path, []byte(c.text), 0o600), os.Chmod(path, c.mode)); err != nil {
			t.Fatal(err)
		}
		all, err := padlockweb.OpenTokens(path)
		if err != nil {
			t.Fatal(err)
		}
		s := newSite(t, padlockweb.Accept(all))
		if got := s.log.has(t, "level", "WARN", "msg", "every user of this machine can read the tokens; chmod 600 the file", "file", path); got != c.want {
			t.Errorf("%s: reported %v, want %v: %v", what, got, c.want, s.log.lines(t))
		}
	}
}

// A visitor whose token has a prefix sees no other names on any page.
func TestPrefix(t *testing.T) {
	past := history.Open(t.TempDir(), "", nil)
	for _, name := range []string{"shop/a", "secret-1", "secret-2"} {
		record(t, past, history.Run{Name: name, Label: "job of " + name, Start: time.Now(), End: time.Now(), Slot: -1})
	}
	s := newSite(t, padlockweb.Accept(tokens(t)), padlockweb.AllowBreak(), padlockweb.History(past))
	s.get("jobs", with(reader)) // the jobs that another visitor has read are kept
	s.lock("shop/a", "secret-1", "secret-2/shop/")
	host, _ := os.Hostname()
	paths := []string{"", "jobs", "jobs?q=secret", "jobs?failed=1", "?q=secret", "?q=" + host, "api/locks", "api/locks?n=secret-1", "api/locks?q=" + host, "metrics", "name?n=secret-1", "break?n=secret-1"}
	for _, path := range paths {
		text := s.get(path, with(shopBreak)).text
		if strings.Contains(strings.ReplaceAll(text, `value="secret"`, ""), "job of secret") || strings.Contains(text, "secret-2") || strings.Contains(text, `group="secret`) {
			t.Errorf("%q shows a name without the prefix: %s", path, text)
		}
	}
	if a := s.get("", with(shopBreak)); !strings.Contains(a.text, "job of shop/a") || strings.Contains(a.text, "3 names") {
		t.Errorf("the table of the prefix: %s", a.text)
	}
	if a := s.get("jobs", with(shopBreak)); !strings.Contains(a.text, "shop/a") || !strings.Contains(a.text, "1 job,") {
		t.Errorf("the jobs of the prefix: %s", a.text)
	}
	_, jobs := s.events("view=jobs", with(shopOnly))
	if event, data := jobs(); event != "locks" || !strings.Contains(data, "shop/a") || strings.Contains(data, "secret") {
		t.Errorf("the stream of jobs: %s %s", event, data)
	}
	status, next := s.events("", with(shopOnly))
	if event, data := next(); status != http.StatusOK || event != "locks" || !strings.Contains(data, "shop/a") || strings.Contains(data, "secret") {
		t.Errorf("the stream of the prefix is %d: %s %s", status, event, data)
	}
	for _, query := range []string{"view=name&n=secret-1", "view=name&n="} {
		if status, _ := s.events(query, with(shopOnly)); status != http.StatusNotFound {
			t.Errorf("a stream of %q: %d", query, status)
		}
	}
	a := s.ask(http.MethodPost, "break", form("n", "secret-1", "fence", fmt.Sprint(s.fence("secret-1")), "reason", "x"), with(shopBreak))
	if a.StatusCode != http.StatusNotFound {
		t.Errorf("a break without the prefix: %d", a.StatusCode)
	}
	if !s.log.has(t, "msg", "refused", "token", "shop-break", "name", "secret-1") {
		t.Errorf("the refusal is not in the log: %v", s.log.lines(t))
	}
}

// A break needs the right, the fence that was seen and a reason. Everything else breaks nothing.
func TestBreak(t *testing.T) {
	s := newSite(t, padlockweb.Accept(tokens(t)), padlockweb.ReadWithoutToken(), padlockweb.AllowBreak())
	k := s.lock("shop/a")[0]
	fence := fmt.Sprint(k.Fence())
	for _, c := range []struct {
		token, form string
		want        int
	}{
		{"", form("n", "shop/a", "fence", fence, "reason", "dead"), http.StatusUnauthorized},
		{reader, form("n", "shop/a", "fence", fence, "reason", "dead"), http.StatusForbidden},
		{breaker, form("n", "shop/a", "fence", "7", "reason", "dead"), http.StatusConflict},
		{breaker, form("n", "shop/a", "fence", fence, "reason", "  "), http.StatusBadRequest},
		{breaker, form("n", "shop/a", "reason", "dead"), http.StatusBadRequest},
		{breaker, form("n", "shop/a", "fence", "0", "reason", "dead"), http.StatusBadRequest},
		{breaker, form("n", "shop/a", "fence", fence, "reason", strings.Repeat("x", 301)), http.StatusBadRequest},
		{breaker, form("n", "shop/b", "fence", fence, "reason", "dead"), http.StatusConflict},
		{breaker, "n=" + strings.Repeat("x", 20<<10), http.StatusBadRequest},
	} {
		if a := s.ask(http.MethodPost, "break", c.form, with(c.token)); a.StatusCode != c.want {
			t.Errorf("%q posts %.60s: %d, want %d", c.token, c.form, a.StatusCode, c.want)
		}
	}
	if err := k.Context().Err(); err != nil || s.fence("shop/a") != k.Fence() {
		t.Fatalf("the lock was broken: %v", err)
	}
	a := s.ask(http.MethodPost, "break", form("n", "shop/a", "fence", fence, "reason", "web-3 is dead"), with(shopBreak))
	if a.StatusCode != http.StatusOK {
		t.Fatalf("the break: %d, %s", a.StatusCode, a.text)
	}
	if got := s.get(""); strings.Contains(got.text, "shop/a") {
		t.Error("the page still shows the lock")
	}
	if !s.log.has(t, "msg", "break", "token", "shop-break", "name", "shop/a", "reason", "web-3 is dead", "from", "127.0.0.1") {
		t.Errorf("the break is not in the log: %v", s.log.lines(t))
	}
	if !s.log.has(t, "msg", "refused", "token", "reader", "name", "shop/a") {
		t.Errorf("the refusal is not in the log: %v", s.log.lines(t))
	}
	again := s.ask(http.MethodPost, "break", form("n", "shop/a", "fence", fence, "reason", "again"), with(breaker))
	if again.StatusCode != http.StatusConflict {
		t.Errorf("the same form again: %d", again.StatusCode)
	}
}

// Nothing can be broken without AllowBreak, and nothing by a visitor without a name.
func TestReadOnly(t *testing.T) {
	for what, opts := range map[string][]padlockweb.Option{
		"read-only": {padlockweb.Accept(tokens(t))},
		"no tokens": {padlockweb.AllowBreak(), padlockweb.ReadWithoutToken()},
		"no name": {padlockweb.AllowBreak(), padlockweb.Authorize(func(*http.Request) padlockweb.Visitor {
			return padlockweb.Visitor{Right: padlockweb.RightBreak}
		})},
	} {
		s := newSite(t, opts...)
		k := s.lock("a")[0]
		for _, method := range []string{http.MethodGet, http.MethodPost} {
			path, body := "break?n=a", ""
			if method == http.MethodPost {
				path, body = "break", form("n", "a", "fence", fmt.Sprint(k.Fence()), "reason", "x")
			}
			if a := s.ask(method, path, body, with(breaker)); a.StatusCode != http.StatusForbidden {
				t.Errorf("%s: %s is %d", what, method, a.StatusCode)
			}
		}
		if k.Fence() != s.fence("a") {
			t.Errorf("%s: the lock was broken", what)
		}
		if strings.Contains(s.get("name?n=a", with(breaker)).text, "Break …") {
			t.Errorf("%s: the page offers a break", what)
		}
	}
}

// A break of one slot does not end the hold of another slot.
func TestBreakSlot(t *testing.T) {
	s := newSite(t, padlockweb.Accept(tokens(t)), padlockweb.AllowBreak())
	for range 2 {
		if _, err := s.locker.TryAcquire(t.Context(), "pool", padlock.Slots(3)); err != nil {
			t.Fatal(err)
		}
	}
	s.sample()
	page := s.get("name?n=pool", with(breaker)).text
	if strings.Count(page, "Break …") != 2 {
		t.Fatalf("the page of the slots: %s", page)
	}
	stored := "pool\x1fslot:1"
	ask := s.get("break?"+form("n", stored), with(breaker))
	if ask.StatusCode != http.StatusOK || !strings.Contains(ask.text, "pool, slot 1") {
		t.Errorf("the question is %d: %s", ask.StatusCode, ask.text)
	}
	a := s.ask(http.MethodPost, "break?"+form("n", stored), form("fence", fmt.Sprint(s.fence(stored)), "reason", "x"), with(breaker))
	if a.StatusCode != http.StatusOK {
		t.Errorf("the break is %d: %s", a.StatusCode, a.text)
	}
	if page := s.get("name?n=pool", with(breaker)).text; strings.Count(page, "Break …") != 1 {
		t.Errorf("after the break: %s", page)
	}
}

// A browser logs in with a form, and the visit ends with the logout or with the token.
func TestLogin(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(tokenFile)
	all, err := padlockweb.OpenTokens(path)
	if err != nil {
		t.Fatal(err)
	}
	s := newSite(t, padlockweb.Accept(all))
	if a := s.ask(http.MethodPost, "login", form("token", "wrong")); a.StatusCode != http.StatusUnauthorized || len(a.Cookies()) > 0 {
		t.Errorf("a wrong token: %d, %v", a.StatusCode, a.Cookies())
	}
	logIn := func() func(*http.Request) {
		t.Helper()
		a := s.ask(http.MethodPost, "login", form("token", reader))
		if a.StatusCode != http.StatusSeeOther || len(a.Cookies()) != 1 {
			t.Fatalf("the login: %d, %v", a.StatusCode, a.Cookies())
		}
		c := a.Cookies()[0]
		if !c.HttpOnly || c.SameSite != http.SameSiteStrictMode || c.Secure || strings.Contains(c.Value, reader) {
			t.Errorf("the cookie is %v", c)
		}
		return func(r *http.Request) { r.AddCookie(c) }
	}
	first, second := logIn(), logIn()
	if a := s.get("", first); a.StatusCode != http.StatusOK || !strings.Contains(a.text, "Log out") {
		t.Errorf("with the cookie: %d", a.StatusCode)
	}
	s.ask(http.MethodPost, "logout", "", first)
	if a := s.get("", first); a.StatusCode != http.StatusUnauthorized {
		t.Errorf("after the logout: %d", a.StatusCode)
	}
	if a := s.get("", second); a.StatusCode != http.StatusOK {
		t.Errorf("another visit has ended too: %d", a.StatusCode)
	}
	write(strings.Replace(tokenFile, reader, reader+"-new", 1))
	for end := time.Now().Add(20 * time.Second); s.get("", second).StatusCode != http.StatusUnauthorized; <-time.After(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the visit does not end with its token")
		}
	}
	if err := os.Chmod(path, 0o666); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(20 * time.Second); !s.log.has(t, "level", "ERROR"); <-time.After(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the log does not say that others can write the tokens")
		}
		if a := s.get("", with(breaker)); a.StatusCode != http.StatusOK {
			t.Fatalf("the last tokens are not good any more: %d", a.StatusCode)
		}
	}
}

// A wrong token is refused and logged, and never locks out a right one.
func TestFailedLogins(t *testing.T) {
	s := newSite(t, padlockweb.Accept(tokens(t)))
	for range 30 {
		if a := s.ask(http.MethodPost, "login", form("token", "guess")); a.StatusCode != http.StatusUnauthorized {
			t.Fatalf("a wrong token: %d", a.StatusCode)
		}
	}
	if a := s.ask(http.MethodPost, "login", form("token", reader)); a.StatusCode != http.StatusSeeOther {
		t.Errorf("a login with a good token: %d", a.StatusCode)
	}
	if !s.log.has(t, "msg", "login failed", "from", "127.0.0.1") {
		t.Errorf("the log is %v", s.log.lines(t))
	}
}

// A page of another site can neither read nor write: by DNS rebinding, or with a form.
func TestOtherSites(t *testing.T) {
	s := newSite(t, padlockweb.Accept(tokens(t)), padlockweb.ReadWithoutToken(), padlockweb.AllowBreak())
	k := s.lock("a")[0]
	for host, want := range map[string]int{"evil.example": 421, "evil.example:80": 421, "localhost:1": 200, "LOCALHOST": 200, "127.0.0.1": 200, "[::1]:7925": 200} {
		if a := s.get("", header("Host", host)); a.StatusCode != want {
			t.Errorf("the host %s: %d, want %d", host, a.StatusCode, want)
		}
	}
	named := newSite(t, padlockweb.Hosts("locks.example.org"), padlockweb.ReadWithoutToken())
	for host, want := range map[string]int{"locks.example.org": 200, "Locks.Example.org:443": 200, "evil.example": 421} {
		if a := named.get("", header("Host", host)); a.StatusCode != want {
			t.Errorf("with Hosts, %s: %d, want %d", host, a.StatusCode, want)
		}
	}
	body := form("n", "a", "fence", fmt.Sprint(k.Fence()), "reason", "x")
	for _, h := range []func(*http.Request){header("Sec-Fetch-Site", "cross-site"), header("Origin", "https://evil.example"), header("Origin", "null")} {
		if a := s.ask(http.MethodPost, "break", body, with(breaker), h); a.StatusCode != http.StatusForbidden {
			t.Errorf("a form of another site: %d", a.StatusCode)
		}
	}
	if s.fence("a") != k.Fence() {
		t.Error("the lock was broken")
	}
}

// A server that knows its users decides by itself.
func TestAuthorize(t *testing.T) {
	s := newSite(t, padlockweb.AllowBreak(), padlockweb.Authorize(func(r *http.Request) padlockweb.Visitor {
		if name := r.Header.Get("X-User"); name != "" {
			return padlockweb.Visitor{Name: name, Right: padlockweb.RightBreak, Prefix: name + "/"}
		}
		return padlockweb.Visitor{}
	}))
	k := s.lock("ann/1", "bob/1")[0]
	if a := s.get(""); a.StatusCode != http.StatusForbidden && a.StatusCode != http.StatusUnauthorized {
		t.Errorf("nobody reads: %d", a.StatusCode)
	}
	if a := s.get("", header("X-User", "ann")); a.StatusCode != http.StatusOK || strings.Contains(a.text, "bob/1") {
		t.Errorf("ann reads: %d, %s", a.StatusCode, a.text)
	}
	a := s.ask(http.MethodPost, "break", form("n", "ann/1", "fence", fmt.Sprint(k.Fence()), "reason", "x"), header("X-User", "ann"))
	if a.StatusCode != http.StatusOK || !s.log.has(t, "msg", "break", "token", "ann") {
		t.Errorf("ann breaks: %d", a.StatusCode)
	}
}

// Package padlockapi finds the words of a token, and its prefix. A token that may only acquire sees
// nothing on the page.
func TestFindToken(t *testing.T) {
	all, err := padlockweb.ParseTokens([]byte("a " + reader + " acquire shop: tenant\nb " + breaker + " acquire,break \"my tenant\"\nc " + shopOnly + " read tenant\n"))
	if err != nil || all.Refresh() != nil {
		t.Fatal(err)
	}
	for secret, want := range map[string]string{reader: "a acquire shop: true true", breaker: "b acquire,break,read my tenant false true", shopOnly: "c read tenant false true", "x": "   false false"} {
		name, rights, prefix, tenant, ok := all.Find(secret)
		if got := fmt.Sprint(name, " ", rights, " ", prefix, " ", tenant, " ", ok); got != want {
			t.Errorf("found %q, want %q", got, want)
		}
	}
	s := newSite(t, padlockweb.Accept(all))
	s.lock("shop:a")
	if a := s.get("api/locks", with(reader)); a.StatusCode != http.StatusUnauthorized || strings.Contains(a.text, "shop:a") {
		t.Errorf("a token that may only acquire reads: %d", a.StatusCode)
	}
}

// Tenants may share a prefix, and a visitor that is no tenant may have one within it.
func TestTenantsPrefixes(t *testing.T) {
	for _, second := range []string{"acme: tenant", "acme:eu:", "a", "acme-eu: tenant"} {
		if _, err := padlockweb.ParseTokens([]byte("a " + reader + " acquire acme: tenant\nb " + breaker + " acquire " + second)); err != nil {
			t.Errorf("%q: %v", second, err)
		}
	}
}

func TestTokenFile(t *testing.T) {
	hash := fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(breaker)))
	good, err := padlockweb.ParseTokens([]byte("a " + hash + " break \"two words/\"\n\n# comment\n\tb\t" + reader + "\tread\tshop/\r\n"))
	if err != nil {
		t.Fatalf("a good file: %v", err)
	}
	s := newSite(t, padlockweb.Accept(good))
	s.lock("two words/x", "shop/y")
	for token, name := range map[string]string{breaker: "two words/x", reader: "shop/y"} {
		if a := s.get("", with(token)); a.StatusCode != http.StatusOK || strings.Count(a.text, "data-name=") != 1 || !strings.Contains(a.text, name) {
			t.Errorf("the token sees %d: %s", a.StatusCode, a.text)
		}
	}
	for text, want := range map[string]string{
		"":                                  "has no token",
		"a short read":                      "at least 20",
		"a " + reader:                       "line 1: the third field must be read, break, acquire or ask",
		"a " + reader + " write":            "read, break, acquire or ask",
		"a " + reader + " read,":            "read, break, acquire or ask",
		"a " + reader + " read tenant x":    "double quotes",
		"a " + reader + " read \"\" tenant": "needs a prefix",
		"a sha256:12 read":                  "64 hexadecimal digits",
		"a " + reader + " read \"open":      "not a Go string",
		"a " + reader + " read two words":   "double quotes",
		"a " + reader + " read\na " + breaker + " read":                                   "line 2: the name \"a\" is there twice",
		"a " + reader + " read\nb " + reader + " read":                                    "same token",
		"a\x01b " + reader + " read":                                                      "control character",
		"a " + reader + " acquire acme tenant\nb " + breaker + " acquire acme-eu: tenant": "line 2: the tenants",
		"a " + reader + " acquire acme-eu: tenant\nb " + breaker + " acquire acme tenant": "each other's names",
	} {
		_, err := padlockweb.ParseTokens([]byte(text))
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), reader) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
	path := filepath.Join(t.TempDir(), "tokens")
	if err := os.WriteFile(path, []byte(tokenFile), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, 0o666); err != nil {
		t.Fatal(err)
	}
	if _, err := padlockweb.OpenTokens(path); err == nil || !strings.Contains(err.Error(), "other users") {
		t.Errorf("a file that all can write: %v", err)
	}
}
