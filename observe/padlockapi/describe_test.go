package padlockapi

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/safety"
	"github.com/padlock-go/padlock/stores/memstore"
)

// The promises are those of the store, and say which requests the visitor may send.
func TestPromises(t *testing.T) {
	a, store := newAPI(t, AllowBreak(), Authorize(func(r *http.Request) Visitor {
		v := Visitor{Name: "ann", Acquire: true, Prefix: "shop:"}
		v.Read = r.Header.Get("X-Read") != ""
		v.Break, v.Ask = v.Read, v.Read
		return v
	}))
	places, _ := driver.As[driver.Places](store)
	id, err := places.StoreID(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, read := range []bool{false, true} {
		got := send(t, a, "/v1/store", `{}`, func(r *http.Request) {
			if read {
				r.Header.Set("X-Read", "yes")
			}
		}).want(t, "store", 200)
		if got.word("store") != "memory" || got.word("id") != id || got.word("fence") != "durable" || got.number("max_ttl_ms") != driver.MaxTTL.Milliseconds() {
			t.Errorf("the promises are %s", got.text)
		}
		for _, key := range []string{"status", "list", "break", "ask"} {
			if got.fields[key] != read {
				t.Errorf("with the right to read: %v, and %s is %v", read, key, got.fields[key])
			}
		}
	}
	none, _ := newAPI(t, Authorize(func(*http.Request) Visitor { return Visitor{Name: "bob"} }))
	send(t, none, "/v1/store", `{}`).want(t, "store without a right", 403)
	spent := handlerOn(t, &promising{memstore.New(), driver.Guarantees{Store: "quorum", Lease: true, RefusedIsSpent: true}})
	send(t, spent, "/v1/store", `{}`).want(t, "a store whose locks cannot be taken", 501)
}

// promising is a store with other promises.
type promising struct {
	driver.Store
	g driver.Guarantees
}

func (p *promising) Guarantees() driver.Guarantees { return p.g }

// Every word for a promise is one of the document.
func TestPromiseWords(t *testing.T) {
	for _, f := range []driver.Fence{driver.FenceNone, driver.FenceSession, driver.FenceDurable} {
		for _, p := range []driver.Promise{driver.PromiseNo, driver.PromisePartly, driver.PromiseYes} {
			g := driver.Guarantees{Lease: true, Fence: f, SharedFence: p, SurvivesRestart: p, SurvivesFailover: p, SafeClockJump: p, SafeEviction: p}
			send(t, handlerOn(t, &promising{memstore.New(), g}), "/v1/store", `{}`).want(t, "store", 200)
		}
	}
}

// A name of any bytes is sent in base64, and is the same lock as that of other programs.
func TestNamesInBase64(t *testing.T) {
	a, store := newAPI(t)
	const name = "a\x00\xff\ufffd"
	field := `"name_base64":"` + base64.StdEncoding.EncodeToString([]byte(name)) + `"`
	send(t, a, "/v1/acquire", `{`+field+`,"token":"`+one+`"}`).want(t, "acquire", 200)
	if s, err := store.(driver.Admin).Inspect(t.Context(), name); err != nil || len(s.Holds) != 1 {
		t.Errorf("the store has %+v, %v", s, err)
	}
	got := send(t, a, "/v1/list", `{"prefix_base64":"`+base64.StdEncoding.EncodeToString([]byte(name[:3]))+`"}`).want(t, "list", 200)
	if locks, _ := got.fields["locks"].([]any); len(locks) != 1 {
		t.Errorf("list: %s", got.text)
	}
	for what, text := range map[string]string{
		"both":       `{"name":"a",` + field + `,"token":"` + one + `"}`,
		"no base64":  `{"name_base64":"ä","token":"` + one + `"}`,
		"no padding": `{"name_base64":"Yf8","token":"` + one + `"}`,
		"other bits": `{"name_base64":"Yf9=","token":"` + one + `"}`,
		"no name":    `{"token":"` + one + `"}`,
	} {
		send(t, a, "/v1/acquire", text).want(t, what, 400)
	}
	bounded, _ := newAPI(t, Authorize(func(*http.Request) Visitor { return Visitor{Name: "ann", Acquire: true, Prefix: "shop:"} }))
	send(t, bounded, "/v1/acquire", `{`+field+`,"token":"`+one+`"}`).want(t, "a name without the prefix", 403)
}

// A token takes over the lock of another one, and never a free name.
func TestReplaces(t *testing.T) {
	a, _ := newAPI(t)
	first := send(t, a, "/v1/acquire", body(one)).want(t, "acquire", 200)
	next := send(t, a, "/v1/acquire", body(two, `"replaces":"`+one+`"`)).want(t, "replaces", 200)
	safety.Rises(t, next.number("fence"), first.number("fence"))
	again := send(t, a, "/v1/acquire", body(two, `"replaces":"`+one+`"`)).want(t, "the repeat", 200)
	if again.number("fence") != next.number("fence") {
		t.Errorf("the repeat has the fence %d, not %d", again.number("fence"), next.number("fence"))
	}
	send(t, a, "/v1/extend", body(one)).want(t, "the lock that was replaced", 410)
	send(t, a, "/v1/acquire", body(three, `"replaces":"`+one+`"`)).want(t, "a lock that is gone", 410)
	for what, more := range map[string]string{"a wait": `"wait_ms":1`, "slots": `"slots":2`} {
		send(t, a, "/v1/acquire", body(three, `"replaces":"`+two+`"`, more)).want(t, what, 400)
	}
	send(t, a, "/v1/release", body(two)).want(t, "release", 200)
	send(t, a, "/v1/acquire", body(three, `"replaces":"`+two+`"`)).want(t, "a free name", 410)
}

// A lock that is only verified ends with its lease.
func TestVerifyChangesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, _ := newAPI(t)
		send(t, a, "/v1/acquire", body(one, `"ttl_ms":1000`)).want(t, "acquire", 200)
		for range 20 {
			<-time.After(49 * time.Millisecond)
			send(t, a, "/v1/extend", body(one)).want(t, "verify", 200)
		}
		<-time.After(21 * time.Millisecond)
		send(t, a, "/v1/extend", body(one)).want(t, "after the lease", 410)
	})
}

// The answers about shared locks say that they are shared.
func TestSharedAnswers(t *testing.T) {
	a, _ := newAPI(t)
	for what, got := range map[string]answer{
		"acquire":  send(t, a, "/v1/acquire", body(one, `"shared":true`)),
		"extend":   send(t, a, "/v1/extend", body(one, `"ttl_ms":30000`)),
		"replaces": send(t, a, "/v1/acquire", body(two, `"shared":true`, `"replaces":"`+one+`"`)),
	} {
		if got.want(t, what, 200).fields["shared"] != true {
			t.Errorf("%s: %s", what, got.text)
		}
	}
	if text, err := json.Marshal(granted{}); err != nil || string(text) != `{"token":"","fence":0,"valid_ms":0}` {
		t.Errorf("an exclusive grant is %s", text)
	}
}
