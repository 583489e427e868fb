package padlockapi

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/driver/fast"
	"github.com/padlock-go/padlock/stores/memstore"
)

// askedIn returns the question of an answer. Without one, the fence is -1.
func askedIn(a answer) answer {
	fields, _ := a.fields["asked"].(map[string]any)
	return answer{fields: fields, text: a.text}
}

// listed returns the only row of a list.
func listed(t *testing.T, a *API) answer {
	t.Helper()
	all := send(t, a, "/v1/list", `{}`).want(t, "list", 200)
	rows, _ := all.fields["locks"].([]any)
	if len(rows) != 1 {
		t.Fatalf("the list is %s", all.text)
	}
	row, _ := rows[0].(map[string]any)
	return answer{fields: row, text: all.text}
}

// A question is for the holder that it saw, ends no lock, and stays until another holder comes. The
// status and the list show it, also on another server.
func TestAsk(t *testing.T) {
	pairs(t, func(t *testing.T, a, b *API) {
		send(t, a, "/v1/ask", `{"name":"a","reason":"deploy"}`).want(t, "nobody has it", 410)
		fence := send(t, a, "/v1/acquire", body(one)).want(t, "the holder", 200).number("fence")
		if got := askedIn(send(t, a, "/v1/status", `{"name":"a"}`).want(t, "status", 200)); got.number("fence") != -1 {
			t.Errorf("before the question: %s", got.text)
		}
		first := send(t, b, "/v1/ask", `{"name":"a","reason":"deploy"}`).want(t, "ask", 200)
		for what, got := range map[string]answer{
			"ask": first, "status": send(t, a, "/v1/status", `{"name":"a"}`).want(t, "status", 200), "list": listed(t, a),
		} {
			q := askedIn(got)
			if q.number("fence") != fence || q.word("reason") != "deploy (192.0.2.1)" || q.word("host") == "" || q.number("since_ms") < 0 {
				t.Errorf("%s: the question is %s, the holder has the fence %d", what, got.text, fence)
			}
		}
		again := send(t, a, "/v1/ask", `{"name":"a","reason":"drain"}`).want(t, "another question", 200)
		if first.fields["earlier"] != false || again.fields["earlier"] != true || askedIn(again).word("reason") != "deploy (192.0.2.1)" {
			t.Errorf("the first question: %s, the other one: %s", first.text, again.text)
		}
		send(t, a, "/v1/extend", body(one, `"ttl_ms":30000`)).want(t, "the holder goes on", 200)
		send(t, a, "/v1/release", body(one)).want(t, "release", 200)
		next := send(t, a, "/v1/acquire", body(two)).want(t, "the next holder", 200).number("fence")
		for _, got := range []answer{send(t, a, "/v1/status", `{"name":"a"}`), listed(t, a)} {
			if askedIn(got).number("fence") != -1 {
				t.Errorf("the next holder is asked: %s", got.text)
			}
		}
		if got := send(t, a, "/v1/ask", `{"name":"a"}`).want(t, "ask again", 200); askedIn(got).number("fence") != next {
			t.Errorf("the question to the next holder is %s", got.text)
		}
	})
}

// A reader that was asked stays asked when another one comes, who has a greater fence.
func TestReaderStaysAsked(t *testing.T) {
	a, _ := newAPI(t)
	first := send(t, a, "/v1/acquire", body(one, `"shared":true`)).want(t, "a reader", 200).number("fence")
	send(t, a, "/v1/ask", `{"name":"a"}`).want(t, "ask", 200)
	second := send(t, a, "/v1/acquire", body(two, `"shared":true`, `"fence_above":5000000000000000`)).want(t, "another reader", 200).number("fence")
	got := askedIn(send(t, a, "/v1/status", `{"name":"a"}`).want(t, "status", 200))
	if got.number("fence") != first || second == first {
		t.Errorf("the readers have the fences %d and %d, the question is %s", first, second, got.text)
	}
}

// The right to ask is a right of its own, and has a prefix as the others.
func TestAskRights(t *testing.T) {
	log := &records{}
	a, _ := newAPI(t, Accept(everybody), AllowBreak(), Logger(log.logger()))
	send(t, a, "/v1/acquire", lock("shop/1", one), as("worker")).want(t, "the holder", 200)
	for _, c := range []struct {
		path, body string
		want       int
	}{
		{"/v1/ask", `{"name":"bank/1"}`, 403},
		{"/v1/ask", `{"name":"shop/1","reason":"deploy"}`, 200},
		{"/v1/acquire", lock("shop/2", one), 403},
		{"/v1/extend", lock("shop/1", one), 403},
		{"/v1/release", lock("shop/1", one), 403},
		{"/v1/status", `{"name":"shop/1"}`, 403},
		{"/v1/list", `{"prefix":"shop/"}`, 403},
		{"/v1/break", `{"name":"shop/1","fence":1}`, 403},
		{"/v1/store", `{}`, 200},
	} {
		send(t, a, c.path, c.body, as("asker")).want(t, c.path+" "+c.body, c.want)
	}
	if !log.has("msg", `"ask"`, "token", `"asker"`, "name", `"shop/1"`, "reason", `"deploy"`) {
		t.Errorf("the log is %s", log)
	}
}

// Who has asked before is shown only to those who may read.
func TestEarlierNeedsRead(t *testing.T) {
	a, _ := newAPI(t, Accept(everybody))
	send(t, a, "/v1/acquire", lock("shop/1", one), as("admin")).want(t, "the holder", 200)
	send(t, a, "/v1/ask", `{"name":"shop/1","reason":"secret"}`, as("boss")).want(t, "ask", 200)
	for who, want := range map[string]bool{"asker": false, "boss": true} {
		got := send(t, a, "/v1/ask", `{"name":"shop/1","reason":"other"}`, as(who)).want(t, who, 200)
		if shown := strings.Contains(got.text, "secret (boss, 192.0.2.1)"); shown != want || got.fields["earlier"] != true {
			t.Errorf("%s: %s", who, got.text)
		}
	}
}

// unitSeparator is the byte 0x1F as JSON has it.
const unitSeparator = `\u001f`

// Whoever may not ask cannot take, or end, the lock that keeps a question either. Who may ask, but
// not acquire, cannot take it as a lock.
func TestQuestionsNeedAsk(t *testing.T) {
	a, _ := newAPI(t, Accept(everybody), AllowBreak())
	send(t, a, "/v1/acquire", lock("shop/1", one), as("worker")).want(t, "the holder", 200)
	question := strings.ReplaceAll(fast.AskName("shop/1"), "\x1f", unitSeparator)
	name := `{"name":"` + question + `","token":"` + two + `"`
	for path, bodies := range map[string][]string{
		"/v1/acquire": {name + `}`, name + `,"slots":2}`, name + `,"wait_ms":1}`, name + `,"replaces":"` + three + `"}`},
		"/v1/extend":  {name + `}`, name + `,"ttl_ms":1000}`, name + `,"slot":1}`},
		"/v1/release": {name + `}`},
		"/v1/break":   {`{"name":"` + question + `","fence":1}`},
		"/v1/status":  {`{"name":"` + question + `"}`},
	} {
		for _, text := range bodies {
			want := http.StatusForbidden
			if path == "/v1/status" {
				want = http.StatusOK
			}
			send(t, a, path, text, as("admin")).want(t, "admin "+path+text, want)
			if got := send(t, a, path, text, as("boss")); got.status == http.StatusForbidden {
				t.Errorf("who may ask and acquire: %s", got.text)
			}
			send(t, a, path, text, as("asker")).want(t, "asker "+path+text, http.StatusForbidden)
		}
	}
	for _, name := range []string{question, unitSeparator + "ask"} { // before the latter comes the prefix of the tenant
		send(t, a, "/v1/acquire", `{"name":"`+name+`","token":"`+one+`"}`, as("north")).want(t, "a tenant, "+name, 403)
	}
}

// looked is a store that counts how often somebody looks at a name.
type looked struct {
	*memstore.Store
	looks atomic.Int64
}

func (l *looked) Inspect(ctx context.Context, name string) (driver.State, error) {
	l.looks.Add(1)
	return l.Store.Inspect(ctx, name)
}

// The status of a name that is held costs the store a second request. That of a free name, a permit
// and a question do not.
func TestStatusCost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &looked{Store: memstore.New()}
		a := handlerOn(t, store)
		send(t, a, "/v1/acquire", body(one)).want(t, "the holder", 200)
		send(t, a, "/v1/acquire", `{"name":"s","token":"`+one+`","slots":2}`).want(t, "a permit", 200)
		send(t, a, "/v1/ask", `{"name":"a"}`).want(t, "ask", 200)
		for text, want := range map[string]int64{
			`{"name":"free"}`: 1, `{"name":"a"}`: 2, `{"name":"s","slot":0}`: 1, `{"name":"a\u001fask"}`: 1,
		} {
			before := store.looks.Load()
			send(t, a, "/v1/status", text).want(t, text, 200)
			if n := store.looks.Load() - before; n != want {
				t.Errorf("%s costs %d requests, want %d", text, n, want)
			}
		}
	})
}

// A reason may be as long as the store keeps one, and a name too long for a question has a status.
func TestLongQuestions(t *testing.T) {
	const most = 100
	store := &limited{Store: memstore.New()}
	store.g = store.Store.Guarantees()
	store.g.MaxLabel = most
	a := handlerOn(t, store)
	name := strings.Repeat("n", driver.MaxName)
	send(t, a, "/v1/acquire", body(one)).want(t, "the holder", 200)
	send(t, a, "/v1/acquire", lock(name, one)).want(t, "the longest name", 200)
	send(t, a, "/v1/status", `{"name":"`+name+`"}`).want(t, "its status", 200)
	send(t, a, "/v1/ask", `{"name":"`+name+`"}`).want(t, "its holder", 400)
	send(t, a, "/v1/ask", `{"name":"a","reason":"`+strings.Repeat("r", maxReason+1)+`"}`).want(t, "a reason that is too long", 400)
	reason := strings.Repeat("r", most-longestFence)
	got := send(t, a, "/v1/ask", `{"name":"a","reason":"`+reason+`"}`).want(t, "the longest reason", 200)
	if askedIn(got).word("reason") != reason { // there is no room for the client
		t.Errorf("the question is %s", got.text)
	}
}

// A store without fences, or without holders to show, cannot keep questions.
func TestAskUnsupported(t *testing.T) {
	for _, g := range []driver.Guarantees{{Lease: true}, {Lease: true, Fence: driver.FenceDurable, Lacks: driver.AbilityInspect}} {
		a := handlerOn(t, &limited{memstore.New(), g})
		send(t, a, "/v1/acquire", body(one)).want(t, "the holder", 200)
		send(t, a, "/v1/ask", `{"name":"a"}`).want(t, "ask", 501)
		if got := send(t, a, "/v1/store", `{}`).want(t, "store", 200); got.fields["ask"] != false {
			t.Errorf("the promises are %s", got.text)
		}
	}
}

// limited is a store with other promises.
type limited struct {
	*memstore.Store
	g driver.Guarantees
}

func (u *limited) Guarantees() driver.Guarantees { return u.g }

func (u *limited) Inspect(ctx context.Context, name string) (driver.State, error) {
	if u.g.Lacks&driver.AbilityInspect != 0 {
		return driver.State{}, errors.ErrUnsupported
	}
	return u.Store.Inspect(ctx, name)
}
