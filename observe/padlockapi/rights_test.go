package padlockapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/remote"
)

func appendInt(n int64) []byte { return strconv.AppendInt(nil, n, 10) }

// people are the tokens of the tests: the secret is the name with "-secret".
type people map[string]Visitor

func (people) Refresh() error { return nil }

func (p people) Find(secret string) (name, rights, prefix string, tenant, ok bool) {
	name = strings.TrimSuffix(secret, "-secret")
	v, ok := p[name]
	words := []string{}
	for word, has := range map[string]bool{"read": v.Read, "acquire": v.Acquire, "break": v.Break, "ask": v.Ask} {
		if has {
			words = append(words, word)
		}
	}
	return name, strings.Join(words, ","), v.Prefix, v.Tenant, ok && name != secret
}

var everybody = people{
	"reader": {Read: true}, "worker": {Acquire: true, Prefix: "shop/"}, "admin": {Read: true, Acquire: true, Break: true},
	"asker": {Ask: true, Prefix: "shop/"}, "boss": {Read: true, Acquire: true, Break: true, Ask: true},
	"north": {Read: true, Acquire: true, Break: true, Prefix: "north:", Tenant: true},
	"south": {Read: true, Acquire: true, Break: true, Prefix: "south:", Tenant: true},
}

func as(name string) func(*http.Request) {
	return func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+name+"-secret") }
}

func lock(name, token string) string { return fmt.Sprintf(`{"name":%q,"token":%q}`, name, token) }

// Each visitor does what its rights and its prefix allow, and nothing else.
func TestRights(t *testing.T) {
	log := &records{}
	a, _ := newAPI(t, Accept(everybody), AllowBreak(), Logger(log.logger()))
	const breaks = `{"name":"shop/1","fence":1}`
	for _, c := range []struct {
		who, path, body string
		want            int
	}{
		{"", "/v1/acquire", lock("shop/1", one), 401},
		{"nobody", "/v1/acquire", lock("shop/1", one), 401},
		{"reader", "/v1/acquire", lock("shop/1", one), 403},
		{"reader", "/v1/extend", lock("shop/1", one), 403},
		{"reader", "/v1/release", lock("shop/1", one), 403},
		{"reader", "/v1/status", `{"name":"shop/1"}`, 200},
		{"reader", "/v1/list", `{}`, 200},
		{"reader", "/v1/break", breaks, 403},
		{"worker", "/v1/acquire", lock("shop/1", one), 200},
		{"worker", "/v1/acquire", lock("shop", one), 403},
		{"worker", "/v1/extend", lock("bank/1", one), 403},
		{"worker", "/v1/release", lock("bank/1", one), 403},
		{"worker", "/v1/status", `{"name":"shop/1"}`, 403},
		{"worker", "/v1/list", `{"prefix":"shop/"}`, 403},
		{"worker", "/v1/break", breaks, 403},
		{"worker", "/v1/ask", `{"name":"shop/1"}`, 403},
		{"admin", "/v1/ask", `{"name":"shop/1"}`, 403},
		{"admin", "/v1/break", breaks, 409},
		{"admin", "/v1/acquire", lock("bank/1", two), 200},
	} {
		with := as(c.who)
		if c.who == "" {
			with = func(*http.Request) {}
		}
		a := send(t, a, c.path, c.body, with)
		a.want(t, c.who+" "+c.path+" "+c.body, c.want)
		if c.want == 401 && a.head.Get("WWW-Authenticate") == "" {
			t.Error("401 without WWW-Authenticate")
		}
	}
	for _, pairs := range [][]string{
		{"msg", `"grant"`, "token", `"worker"`, "from", `"192.0.2.1"`, "name", `"shop/1"`, "path", `"/v1/acquire"`},
		{"msg", `"refused"`, "token", `"admin"`, "why", `"the right ask is missing"`},
		{"msg", `"refused"`, "token", `"reader"`, "why", `"the right acquire is missing"`},
		{"msg", `"refused"`, "token", `"worker"`, "name", `"bank/1"`},
		{"msg", `"refused"`, "why", `"the token is wrong"`},
		{"msg", `"break failed"`, "token", `"admin"`},
	} {
		if !log.has(pairs...) {
			t.Errorf("the log lacks %v: %s", pairs, log)
		}
	}
	for _, secret := range []string{one, two, "-secret"} {
		if strings.Contains(log.String(), secret) {
			t.Errorf("the log has the secret %s: %s", secret, log)
		}
	}
}

// Only a visitor who may read learns who has the lock.
func TestHoldersNeedRead(t *testing.T) {
	a, _ := newAPI(t, Accept(everybody))
	send(t, a, "/v1/acquire", lock("shop/1", one), as("admin")).want(t, "the holder", 200)
	for who, want := range map[string]bool{"worker": false, "admin": true} {
		got := send(t, a, "/v1/acquire", lock("shop/1", two), as(who)).want(t, who, 409)
		if _, shown := got.fields["holders"]; shown != want || got.number("retry_ms") < 0 {
			t.Errorf("%s: %s", who, got.text)
		}
	}
}

// Tenants have names of their own: neither sees, takes or breaks a lock of the other.
func TestTenants(t *testing.T) {
	a, _ := newAPI(t, Accept(everybody), AllowBreak())
	north := send(t, a, "/v1/acquire", lock("a", one), as("north")).want(t, "north", 200)
	send(t, a, "/v1/acquire", lock("a", two), as("south")).want(t, "south", 200)
	send(t, a, "/v1/extend", lock("a", one), as("south")).want(t, "south extends north's", 410)
	for who, others := range map[string]string{"north": "south", "south": "north"} {
		all := send(t, a, "/v1/list", `{}`, as(who)).want(t, "list", 200)
		if len(all.fields["locks"].([]any)) != 1 || strings.Contains(all.text, who+":") || strings.Contains(all.text, others) {
			t.Errorf("%s sees %s", who, all.text)
		}
	}
	all := send(t, a, "/v1/list", `{}`, as("admin")).want(t, "list", 200)
	if len(all.fields["locks"].([]any)) != 2 || !strings.Contains(all.text, `"north:a"`) {
		t.Errorf("admin sees %s", all.text)
	}
	send(t, a, "/v1/acquire", lock(strings.Repeat("x", driver.MaxName), one), as("north")).want(t, "a name that is too long with the prefix", 400)
	send(t, a, "/v1/break", `{"name":"a","fence":`+string(appendInt(north.number("fence")))+`}`, as("north")).want(t, "break", 200)
	send(t, a, "/v1/extend", lock("a", one), as("north")).want(t, "broken", 410)
	send(t, a, "/v1/extend", lock("a", two), as("south")).want(t, "south's is not", 200)
}

// A Handler without a rule lets nobody in, and neither does one that got a nil.
func TestNoRule(t *testing.T) {
	for what, opts := range map[string][]Option{
		"no option":      {nil},
		"Accept(nil)":    {Accept(nil), WithoutToken()},
		"Authorize(nil)": {Authorize(nil), Accept(everybody), WithoutToken()},
	} {
		a, _ := newAPI(t, opts...)
		send(t, a, "/v1/acquire", body(one), as("admin")).want(t, what, 403)
	}
	a, _ := newAPI(t, WithoutToken(), AllowBreak())
	send(t, a, "/v1/break", `{"name":"a","fence":1}`).want(t, "break without a name", 403)
	b, _ := newAPI(t, Accept(everybody))
	send(t, b, "/v1/break", `{"name":"a","fence":1}`, as("admin")).want(t, "break without AllowBreak", 403)
}

// Any number of wrong tokens does not lock out a right one, and the log stays small.
func TestWrongTokensLockNobodyOut(t *testing.T) {
	log := &records{}
	synctest.Test(t, func(t *testing.T) { // the clock of the log stands still
		a, _ := newAPI(t, Accept(everybody), Logger(log.logger()))
		for range 200 {
			send(t, a, "/v1/list", `{}`, as("nobody")).want(t, "a wrong token", 401)
		}
		send(t, a, "/v1/list", `{}`, as("admin")).want(t, "a right token", 200)
	})
	if n := strings.Count(log.String(), "\n"); n != remote.PerSecond {
		t.Errorf("%d records", n)
	}
}

// An address, or a visitor with a name, has at most half of the waits and a bounded number of
// locks.
func TestLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, _ := newAPI(t, WithoutToken(), MaxWaits(6), func(s *settings) { s.maxNames = 3 })
		from := func(address string) func(*http.Request) {
			return func(r *http.Request) { r.RemoteAddr = address + ":1234" }
		}
		send(t, a, "/v1/acquire", body(one)).want(t, "the holder", 200)
		waiter := func(i int, address string) <-chan answer {
			return inBackground(t, a, "/v1/acquire", body(fmt.Sprintf("%s-%d", two, i), `"wait_ms":20000`), from(address))
		}
		var all []<-chan answer
		for i := range 3 {
			all = append(all, waiter(i, "192.0.2.7"))
		}
		for i := range 2 {
			all = append(all, waiter(10+i, "2001:db8::"+string(appendInt(int64(i)))))
		}
		synctest.Wait()
		full := (<-waiter(20, "192.0.2.7")).want(t, "one waiter more from the same address", 429)
		if full.number("retry_ms") < 1 {
			t.Errorf("the answer is %s", full.text)
		}
		all = append(all, waiter(21, "2001:db8::9"))
		synctest.Wait()
		(<-waiter(22, "192.0.2.8")).want(t, "one waiter more than there is room for", 429)
		for _, got := range all {
			(<-got).want(t, "a waiter", 202)
		}
		for i := range 3 {
			send(t, a, "/v1/acquire", lock("n"+string(appendInt(int64(i))), one), from("192.0.2.9")).want(t, "a lock", 200)
		}
		send(t, a, "/v1/acquire", lock("n3", one), from("192.0.2.9")).want(t, "one lock too many", 429)
		send(t, a, "/v1/acquire", lock("n2", one), from("192.0.2.9")).want(t, "a repeat", 200)
		send(t, a, "/v1/release", lock("n2", one), from("192.0.2.9")).want(t, "a release", 200)
		send(t, a, "/v1/acquire", lock("n3", one), from("192.0.2.9")).want(t, "after the release", 200)
	})
}

// A page of another site, another method or another host is refused before a token is looked at.
func TestHead(t *testing.T) {
	a, _ := newAPI(t, WithoutToken(), Hosts("locks.example.org"))
	head := func(key, value string) func(*http.Request) {
		return func(r *http.Request) {
			if key == "Host" {
				r.Host = value
			} else {
				r.Header.Set(key, value)
			}
		}
	}
	good := head("Host", "locks.example.org:7925")
	for _, c := range []struct {
		what string
		with func(*http.Request)
		want int
	}{
		{"good", good, 200},
		{"an address", head("Host", "[::1]:80"), 200},
		{"another host", head("Host", "evil.example"), 421},
		{"a form", head("Content-Type", "application/x-www-form-urlencoded"), 415},
		{"another charset", head("Content-Type", "application/json; charset=latin1"), 415},
		{"utf-8", head("Content-Type", "application/json; charset=utf-8"), 200},
		{"UTF-8", head("Content-Type", "application/json; charset=UTF-8"), 200},
		{"another site", head("Sec-Fetch-Site", "cross-site"), 403},
		{"GET", func(r *http.Request) { r.Method = http.MethodGet }, 405},
	} {
		send(t, a, "/v1/acquire", body(one), good, c.with).want(t, c.what, c.want)
	}
	send(t, a, "/v1/other", body(one), good).want(t, "another path", 404)
	send(t, a, "/v1/openapi.json", "", func(r *http.Request) { r.Method = http.MethodGet }).want(t, "the document", 0)
}

// failing is a store whose requests fail.
type failing struct {
	driver.Store
	err error
}

func (f *failing) Acquire(ctx context.Context, r driver.Request) (driver.Grant, error) {
	return driver.Grant{}, f.err
}

func (f *failing) Extend(ctx context.Context, name, token string, ttl time.Duration) (driver.Grant, error) {
	return driver.Grant{}, f.err
}

func (f *failing) Release(ctx context.Context, name, token string, keep time.Duration) (driver.Outcome, error) {
	return driver.OutcomeGone, f.err
}
func (f *failing) Inspect(context.Context, string) (driver.State, error) {
	return driver.State{}, f.err
}
func (f *failing) List(context.Context, string) ([]driver.State, error) { return nil, f.err }
func (f *failing) Break(ctx context.Context, name string, seen uint64) (uint64, error) {
	return 0, f.err
}

// Each error of the store has its status, which a client can rely on: 503 and 504 may be repeated
// with the same token. No answer has the text of the store's error.
func TestFailures(t *testing.T) {
	const secret = "redis://admin:password@db7"
	synctest.Test(t, func(t *testing.T) {
		bad := &failing{}
		memory, _ := newAPI(t)
		bad.Store = memory.store
		log := &records{}
		a := handlerOn(t, bad, AllowBreak(), Logger(log.logger()), Authorize(func(*http.Request) Visitor {
			return Visitor{Name: "ann", Read: true, Acquire: true, Break: true, Ask: true}
		}))
		for _, c := range []struct {
			err  error
			want int
			but  map[string]int
		}{
			{driver.ErrUnavailable, 503, nil},
			{driver.ErrUncertain, 504, nil},
			{errors.Join(&driver.HeldError{}, driver.ErrUncertain), 504, nil},
			{errors.ErrUnsupported, 501, nil},
			{driver.ErrClosed, 503, nil},
			{driver.ErrLost, 410, map[string]int{"/v1/break": 409}},
			{driver.ErrExpired, 410, nil},
			{driver.ErrInvalid, 400, nil},
		} {
			for path, text := range map[string]string{
				"/v1/acquire": body(one), "/v1/extend": body(one), "/v1/release": body(one),
				"/v1/status": `{"name":"a"}`, "/v1/list": `{}`, "/v1/ask": `{"name":"a"}`, "/v1/break": `{"name":"a","fence":1}`,
			} {
				if gone := c.want == 410; gone && path != "/v1/acquire" && path != "/v1/extend" && c.but[path] == 0 {
					continue // the store does not return this there
				}
				want := c.want
				if c.but[path] != 0 {
					want = c.but[path]
				}
				bad.err = fmt.Errorf("%s: %w", secret, c.err)
				if c.want == 400 {
					bad.err = c.err
				}
				got := send(t, a, path, text).want(t, fmt.Sprintf("%s after %v", path, c.err), want)
				if strings.Contains(got.text, "password") {
					t.Errorf("%s: the answer has the store's error: %s", path, got.text)
				}
				if retry := want == 503 || want == 504; retry != (got.number("retry_ms") >= 0) {
					t.Errorf("%s: retry_ms in %s", path, got.text)
				}
			}
		}
		if !log.has("msg", `"unavailable"`, "path", `"/v1/extend"`, "error", `"`+secret+": "+driver.ErrUnavailable.Error()+`"`) {
			t.Errorf("the log does not say why: %s", log)
		}
	})
}
