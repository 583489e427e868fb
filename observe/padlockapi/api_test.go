package padlockapi

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/safety"
	"github.com/padlock-go/padlock/stores/filestore"
	"github.com/padlock-go/padlock/stores/memstore"
)

// pairs are two servers on one store: two handles of one memory, and two stores in one directory.
// The locks of files are detached from the process.
func pairs(t *testing.T, test func(t *testing.T, a, b *API)) {
	t.Run("memory", func(t *testing.T) {
		store := memstore.New()
		test(t, handlerOn(t, store), handlerOn(t, store.Open()))
	})
	t.Run("files", func(t *testing.T) {
		dir := t.TempDir()
		var both [2]*API
		for i := range both {
			store, err := filestore.Open(dir)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { store.Close() })
			both[i] = handlerOn(t, store)
		}
		test(t, both[0], both[1])
	})
}

// While a token has the lock, a repeat finds the same hold with the same fence, also on another
// server. Each server extends and releases what the other one has granted.
func TestRepeatOnAnotherServer(t *testing.T) {
	pairs(t, func(t *testing.T, a, b *API) {
		first := send(t, a, "/v1/acquire", body(one)).want(t, "the first", 200)
		again := send(t, b, "/v1/acquire", body(one)).want(t, "the repeat", 200)
		if first.number("fence") < 1 || first.number("fence") != again.number("fence") || again.word("token") != one {
			t.Errorf("the fences are %s and %s", first.text, again.text)
		}
		held := send(t, b, "/v1/acquire", body(two, `"label":"x"`)).want(t, "another token", 409)
		if held.word("error") != "held" || len(held.fields["holders"].([]any)) != 1 {
			t.Errorf("the refusal is %s", held.text)
		}
		ext := send(t, b, "/v1/extend", body(one, `"ttl_ms":50000`)).want(t, "extend", 200)
		if ms := ext.number("valid_ms"); ms < 40_000 || ms > 50_000 {
			t.Errorf("extended for %d ms", ms)
		}
		verified := send(t, a, "/v1/extend", body(one)).want(t, "verify", 200)
		if ms := verified.number("valid_ms"); ms < 40_000 || ms > 50_000 {
			t.Errorf("verified for %d ms", ms)
		}
		for _, outcome := range []string{"released", "gone"} {
			out := send(t, b, "/v1/release", body(one)).want(t, "release", 200)
			if out.word("outcome") != outcome {
				t.Errorf("release: %s, want %s", out.text, outcome)
			}
		}
		send(t, a, "/v1/extend", body(one, `"ttl_ms":5000`)).want(t, "extend after the release", 410)
		next := send(t, a, "/v1/acquire", body(three)).want(t, "the next", 200)
		safety.Rises(t, next.number("fence"), first.number("fence"))
		if out := send(t, b, "/v1/release", body(one)).want(t, "a late release", 200); out.word("outcome") == "released" {
			t.Errorf("a late release ends the lock of another: %s", out.text)
		}
		send(t, b, "/v1/extend", body(three)).want(t, "the next one still has it", 200)
	})
}

// A wait on one server ends when another server releases the lock, and the waiter's token can be
// repeated on the other server.
func TestWaitAcrossServers(t *testing.T) {
	pairs(t, func(t *testing.T, a, b *API) {
		send(t, a, "/v1/acquire", body(one)).want(t, "the holder", 200)
		got := inBackground(t, b, "/v1/acquire", body(two, `"wait_ms":20000`, `"ttl_ms":30000`))
		for waitOf(b, two) == nil {
			<-time.After(time.Millisecond)
		}
		send(t, b, "/v1/release", body(one)).want(t, "the release", 200)
		granted := (<-got).want(t, "the waiter", 200)
		if ms := granted.number("valid_ms"); ms < 25_000 || ms > 60_000 {
			t.Errorf("valid for %d ms", ms)
		}
		again := send(t, a, "/v1/acquire", body(two, `"wait_ms":20000`)).want(t, "the repeat", 200)
		if again.number("fence") != granted.number("fence") {
			t.Errorf("the repeat has another fence: %s, %s", granted.text, again.text)
		}
	})
}

// A client whose connection broke may wait on two servers. If one of them gets the lock for it, the
// other one finds that at the next request.
func TestWaitOnTwoServers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		a, b := handlerOn(t, store), handlerOn(t, store.Open())
		send(t, a, "/v1/acquire", body(one)).want(t, "the holder", 200)
		text := body(two, `"wait_ms":25000`, `"ttl_ms":58000`)
		first := inBackground(t, a, "/v1/acquire", text)
		synctest.Wait()
		second := inBackground(t, b, "/v1/acquire", text)
		synctest.Wait()
		send(t, a, "/v1/release", body(one)).want(t, "the release", 200)
		granted := (<-first).want(t, "the first server", 200)
		(<-second).want(t, "the second server", 202)
		began := time.Now()
		again := send(t, b, "/v1/acquire", text).want(t, "the second server, again", 200)
		if again.number("fence") != granted.number("fence") || time.Since(began) > time.Second {
			t.Errorf("after %v: %s, and the first server said %s", time.Since(began), again.text, granted.text)
		}
		if b.waits.all != 0 {
			t.Error("the second server still waits")
		}
	})
}

// valid_ms counts from the moment at which the client sent the request, even after a wait: it is
// the time for which the server kept the request, plus the rest of the lease.
func TestValidAfterAWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, _ := newAPI(t)
		send(t, a, "/v1/acquire", body(one)).want(t, "the holder", 200)
		got := inBackground(t, a, "/v1/acquire", body(two, `"wait_ms":25000`, `"ttl_ms":10000`))
		time.AfterFunc(20*time.Second, func() { send(t, a, "/v1/release", body(one)) })
		granted := (<-got).want(t, "the waiter", 200)
		if ms := granted.number("valid_ms"); ms < 29_500 || ms > 30_000 {
			t.Errorf("20 s of waiting and a lease of 10 s: valid for %d ms", ms)
		}
	})
}

// The server never renews a lock: it ends with its lease, unless the client extends it. The end of
// the first lease in the memory of the server does not end an extended lock.
func TestServerNeverRenews(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, store := newAPI(t)
		send(t, a, "/v1/acquire", body(one, `"ttl_ms":3000`)).want(t, "the first", 200)
		<-time.After(2 * time.Second)
		send(t, a, "/v1/extend", body(one, `"ttl_ms":3000`)).want(t, "extend", 200)
		<-time.After(2 * time.Second)
		send(t, a, "/v1/acquire", body(two)).want(t, "another one, while it is extended", 409)
		// The first lease is no plan: otherwise each client that renews would look stuck.
		if state, err := padlock.New(store, padlock.KeepStoreOpen()).Inspect(t.Context(), "a"); err != nil || len(state.Holds) != 1 || !state.Holds[0].PlannedEnd.IsZero() {
			t.Errorf("while it is extended: %+v, %v", state, err)
		}
		<-time.After(2 * time.Second)
		send(t, a, "/v1/acquire", body(two)).want(t, "another one, after the lease", 200)
		gone := send(t, a, "/v1/extend", body(one, `"ttl_ms":3000`)).want(t, "extend after the lease", 410)
		if word := gone.word("error"); word != "lost" && word != "expired" {
			t.Errorf("the error is %s", gone.text)
		}
	})
}

// Waiting has the names as the store has them.
func TestWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, _ := newAPI(t, Authorize(func(*http.Request) Visitor {
			return Visitor{Name: "ann", Acquire: true, Tenant: true, Prefix: "shop:"}
		}))
		send(t, a, "/v1/acquire", body(one)).want(t, "the holder", 200)
		first, second := inBackground(t, a, "/v1/acquire", body(two, `"wait_ms":2000`)), inBackground(t, a, "/v1/acquire", body(three, `"wait_ms":2000`))
		synctest.Wait()
		if got := a.Waiting(); len(got) != 1 || got["shop:a"] != 2 {
			t.Errorf("waiting: %v", got)
		}
		send(t, a, "/v1/release", body(two)).want(t, "the first gives up", 200)
		if got := a.Waiting(); got["shop:a"] != 1 {
			t.Errorf("waiting after a release: %v", got)
		}
		<-first
		<-second
	})
}

// A request waits for at most MaxPoll. The client keeps its place when it comes again within Grace,
// and loses it afterwards.
func TestPlaceIsKept(t *testing.T) {
	for name, c := range map[string]struct {
		pause time.Duration
		first string
	}{"in time": {Grace - time.Second, two}, "too late": {Grace + time.Second, three}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a, _ := newAPI(t)
				send(t, a, "/v1/acquire", body(one, `"ttl_ms":58000`)).want(t, "the holder", 200)
				began := time.Now()
				waits := send(t, a, "/v1/acquire", body(two, `"wait_ms":60000`)).want(t, "the first wait", 202)
				if time.Since(began) != MaxPoll || waits.word("token") != two {
					t.Errorf("202 after %v: %s", time.Since(began), waits.text)
				}
				behind := inBackground(t, a, "/v1/acquire", body(three, `"wait_ms":25000`))
				<-time.After(c.pause)
				second := inBackground(t, a, "/v1/acquire", body(two, `"wait_ms":20000`))
				synctest.Wait()
				send(t, a, "/v1/release", body(one)).want(t, "the release", 200)
				synctest.Wait()
				held := send(t, a, "/v1/status", `{"name":"a"}`).want(t, "status", 200)
				send(t, a, "/v1/extend", body(c.first)).want(t, "the first in line has the lock", 200)
				if held.fields["held"] != true {
					t.Errorf("the state is %s", held.text)
				}
				send(t, a, "/v1/release", body(c.first)).want(t, "its release", 200)
				(<-behind).want(t, "one waiter", 200)
				(<-second).want(t, "the other waiter", 200)
			})
		})
	}
}

// A client that disconnects during its wait keeps its place for Grace, and then the next one gets
// the lock. If the lock comes within Grace, it stays with the client until its lease ends.
func TestClientDisconnects(t *testing.T) {
	for name, c := range map[string]struct {
		release time.Duration // after the client has gone
		status  int           // of the next client
	}{"within grace": {Grace / 2, 409}, "after grace": {2 * Grace, 200}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a, _ := newAPI(t)
				send(t, a, "/v1/acquire", body(one)).want(t, "the holder", 200)
				with, cancel := cancellable()
				got := inBackground(t, a, "/v1/acquire", body(two, `"wait_ms":25000`, `"ttl_ms":4000`), with)
				synctest.Wait()
				cancel()
				(<-got).want(t, "the client, if it is still there", 202)
				<-time.After(c.release)
				send(t, a, "/v1/release", body(one)).want(t, "the release", 200)
				synctest.Wait()
				send(t, a, "/v1/acquire", body(three)).want(t, "another client", c.status)
				if c.status == 409 {
					send(t, a, "/v1/acquire", body(two)).want(t, "the client comes back", 200)
				}
				if a.waits.all != 0 || len(a.waits.table) != 0 || len(a.waits.by) != 0 {
					t.Errorf("waits are left: %+v", &a.waits)
				}
			})
		})
	}
}

// A client is cut off in its wait, and the lock is released within its grace. The client that is gone
// gets the lock for its whole lease, and the next one waits for the end of that.
func TestDeadClientGetsItsLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, _ := newAPI(t)
		send(t, a, "/v1/acquire", body(one)).want(t, "the holder", 200)
		with, cancel := cancellable()
		got := inBackground(t, a, "/v1/acquire", body(two, `"wait_ms":25000`, `"ttl_ms":20000`), with)
		synctest.Wait()
		cancel()
		<-got
		send(t, a, "/v1/release", body(one)).want(t, "the release", 200)
		<-time.After(15 * time.Second)
		send(t, a, "/v1/acquire", body(three)).want(t, "before the end of the lease", 409)
		<-time.After(6 * time.Second)
		send(t, a, "/v1/acquire", body(three)).want(t, "after the end of the lease", 200)
	})
}

// Release gives up a wait, and so does an acquire that does not wait.
func TestGiveUp(t *testing.T) {
	for path, last := range map[string]int{"/v1/release": 200, "/v1/acquire": 409} {
		synctest.Test(t, func(t *testing.T) {
			a, _ := newAPI(t)
			send(t, a, "/v1/acquire", body(one)).want(t, "the holder", 200)
			got := inBackground(t, a, "/v1/acquire", body(two, `"wait_ms":25000`))
			synctest.Wait()
			send(t, a, path, body(two)).want(t, path, last)
			(<-got).want(t, "the request that waited", 410)
			send(t, a, "/v1/release", body(one)).want(t, "the release", 200)
			send(t, a, "/v1/acquire", body(three)).want(t, "another client", 200)
		})
	}
}

// Close ends the waits and keeps the holds. The waiter goes on at another server.
func TestCloseKeepsHolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		a, b := Handler(store, WithoutToken()), handlerOn(t, store.Open())
		send(t, a, "/v1/acquire", body(one)).want(t, "the holder", 200)
		send(t, a, "/v1/acquire", `{"name":"s","token":"`+one+`","slots":2}`).want(t, "a permit", 200)
		got := inBackground(t, a, "/v1/acquire", body(two, `"wait_ms":25000`))
		synctest.Wait()
		if err := a.Close(); err != nil {
			t.Error(err)
		}
		closing := (<-got).want(t, "the waiter", 503)
		if closing.word("error") != "closing" {
			t.Errorf("the waiter got %s", closing.text)
		}
		send(t, a, "/v1/acquire", body(three, `"wait_ms":1000`)).want(t, "a new wait", 503)
		send(t, b, "/v1/acquire", body(two)).want(t, "the lock is still held", 409)
		send(t, b, "/v1/extend", body(one, `"ttl_ms":30000`)).want(t, "the holder goes on", 200)
		send(t, b, "/v1/extend", `{"name":"s","token":"`+one+`","slot":0}`).want(t, "the permit goes on", 200)
	})
}

// With slots, as many clients hold the name, each with a permit of its own. The number of the
// permit goes with the later requests, and a repeat finds the same permit.
func TestSlots(t *testing.T) {
	pairs(t, func(t *testing.T, a, b *API) {
		first := send(t, a, "/v1/acquire", body(one, `"slots":2`)).want(t, "the first", 200)
		second := send(t, b, "/v1/acquire", body(two, `"slots":2`)).want(t, "the second", 200)
		again := send(t, b, "/v1/acquire", body(one, `"slots":2`)).want(t, "the repeat", 200)
		if first.number("slot") != 0 || second.number("slot") != 1 || again.number("slot") != 0 || again.number("fence") != first.number("fence") {
			t.Errorf("the permits: %s, %s, %s", first.text, second.text, again.text)
		}
		send(t, a, "/v1/acquire", body(three, `"slots":2`)).want(t, "the third", 409)
		got := inBackground(t, a, "/v1/acquire", body(three, `"slots":2`, `"wait_ms":20000`))
		send(t, a, "/v1/extend", body(two, `"slot":1`, `"ttl_ms":30000`)).want(t, "extend", 200)
		send(t, b, "/v1/extend", body(two)).want(t, "extend without the permit", 410)
		state := send(t, b, "/v1/status", `{"name":"a","slot":1}`).want(t, "status", 200)
		if state.fields["held"] != true || state.word("name") != "a" || state.number("slot") != 1 {
			t.Errorf("the state is %s", state.text)
		}
		send(t, a, "/v1/release", body(two, `"slot":1`)).want(t, "release", 200)
		if third := (<-got).want(t, "the third", 200); third.number("slot") != 1 {
			t.Errorf("the third has %s", third.text)
		}
	})
}

// Shared locks, cool-downs, first leases and fences go through to the store.
func TestOptions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, _ := newAPI(t)
		send(t, a, "/v1/acquire", body(one, `"shared":true`)).want(t, "a reader", 200)
		send(t, a, "/v1/acquire", body(two, `"shared":true`)).want(t, "another reader", 200)
		send(t, a, "/v1/acquire", body(three)).want(t, "a writer", 409)
		send(t, a, "/v1/release", body(one)).want(t, "release", 200)
		send(t, a, "/v1/release", body(two, `"keep_ms":5000`)).want(t, "release with a cool-down", 200)
		cooling := send(t, a, "/v1/acquire", body(three)).want(t, "in the cool-down", 409)
		if ms := cooling.number("retry_ms"); ms < 4900 || ms > 5100 {
			t.Errorf("retry after %d ms", ms)
		}
		<-time.After(6 * time.Second)
		high := send(t, a, "/v1/acquire", body(three, `"fence_above":5000000000000000`, `"ttl_ms":1000`, `"keep_ms":10000`)).want(t, "a high fence", 200)
		if high.number("fence") != 5000000000000001 {
			t.Errorf("the fence is %s", high.text)
		}
		send(t, a, "/v1/extend", body(three, `"fence_at_least":9007199254740991`)).want(t, "all fences", 400)
		raised := fmt.Sprintf(`"fence_at_least":%d`, int64(driver.MaxFenceAbove))
		send(t, a, "/v1/extend", body(three, raised)).want(t, "as far as allowed", 200)
		if ms := high.number("valid_ms"); ms < 9800 {
			t.Errorf("the first lease is %d ms", ms)
		}
		send(t, a, "/v1/release", body(three, `"keep_ms":1`)).want(t, "release with a short cool-down", 200)
		send(t, a, "/v1/acquire", body(one)).want(t, "within the cool-down", 409)
		<-time.After(driver.MinTTL)
		send(t, a, "/v1/acquire", body(one)).want(t, "after it", 200)
	})
}

// People see who holds a name, and end a hold only while it has the fence that they saw.
func TestStatusListBreak(t *testing.T) {
	a, store := newAPI(t, AllowBreak(), Authorize(func(*http.Request) Visitor {
		return Visitor{Name: "ann", Read: true, Acquire: true, Break: true}
	}))
	fence := send(t, a, "/v1/acquire", body(one, `"label":"nightly"`)).want(t, "the holder", 200).number("fence")
	l := padlock.New(store, padlock.KeepStoreOpen())
	defer l.Close(t.Context())
	if _, err := l.TryAcquire(t.Context(), "a\xff"); err != nil {
		t.Fatal(err)
	}
	state := send(t, a, "/v1/status", `{"name":"a"}`).want(t, "status", 200)
	if state.number("fence") != fence || !strings.Contains(state.text, `"label":"nightly (ann, 192.0.2.1)"`) {
		t.Errorf("the state is %s", state.text)
	}
	free := send(t, a, "/v1/status", `{"name":"free"}`).want(t, "status", 200)
	if free.fields["held"] != false || len(free.fields["holders"].([]any)) != 0 {
		t.Errorf("a free name: %s", free.text)
	}
	all := send(t, a, "/v1/list", `{}`).want(t, "list", 200)
	if len(all.fields["locks"].([]any)) != 2 || !strings.Contains(all.text, `"name_base64":"Yf8="`) {
		t.Errorf("the list is %s", all.text)
	}
	if none := send(t, a, "/v1/list", `{"prefix":"b"}`).want(t, "list", 200); len(none.fields["locks"].([]any)) != 0 {
		t.Errorf("the list is %s", none.text)
	}
	send(t, a, "/v1/break", `{"name":"a","fence":1}`).want(t, "break with an old fence", 409)
	send(t, a, "/v1/extend", body(one)).want(t, "still held", 200)
	send(t, a, "/v1/break", `{"name":"a","fence":`+string(appendInt(fence))+`,"reason":"web-3 is dead"}`).want(t, "break", 200)
	send(t, a, "/v1/extend", body(one)).want(t, "broken", 410)
}

// A list has at most maxListed locks and counts the rest.
func TestListIsBounded(t *testing.T) {
	a, store := newAPI(t)
	for i := range maxListed + 7 {
		r := driver.Request{Name: "n" + string(appendInt(int64(i))), Token: driver.TokenOf(one), TTL: 50 * time.Second}
		if _, err := store.Acquire(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	all := send(t, a, "/v1/list", `{"prefix":"n"}`).want(t, "list", 200)
	if n := len(all.fields["locks"].([]any)); n != maxListed || all.number("left_out") != 7 {
		t.Errorf("%d locks, %d left out", n, all.number("left_out"))
	}
}

// The client as the server sees it is left out of the label if the store has no room for it.
func TestLabelFillsTheStore(t *testing.T) {
	store, err := filestore.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	a := handlerOn(t, store)
	label := strings.Repeat("x", store.Guarantees().MaxLabel)
	send(t, a, "/v1/acquire", body(one, `"label":"`+label+`"`)).want(t, "the longest label", 200)
}
