package padlockapi

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/safety"
	"github.com/padlock-go/padlock/stores/memstore"
)

// crowd is how many clients of one address wait for one name: almost as many as MaxWaits allows.
const crowd = 1000

// A crowd of clients that wait for one name get the lock one after the other, with growing fences,
// although each has to repeat its request many times. Nothing of them is left.
func TestCrowd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, _ := newAPI(t)
		var inside atomic.Int32
		var last atomic.Int64
		var all sync.WaitGroup
		for i := range crowd {
			all.Go(func() {
				text := body(fmt.Sprintf("%s-%d", one, i), `"wait_ms":25000`, `"ttl_ms":5000`)
				got := send(t, a, "/v1/acquire", text)
				for got.status == http.StatusAccepted {
					got = send(t, a, "/v1/acquire", text)
				}
				got.want(t, "the last answer", 200)
				if inside.Add(1) != 1 {
					safety.TwoHold(t, "two clients have the lock")
				}
				fence := got.number("fence")
				safety.Rises(t, fence, last.Swap(fence))
				<-time.After(100 * time.Millisecond)
				inside.Add(-1)
				send(t, a, "/v1/release", body(fmt.Sprintf("%s-%d", one, i))).want(t, "release", 200)
			})
		}
		all.Wait()
		if a.waits.all != 0 || len(a.waits.table) != 0 || len(a.ledger.by) != 0 {
			t.Errorf("%d waits and %d locks are left", a.waits.all, len(a.ledger.by))
		}
	})
}

// BenchmarkPair measures an acquire and a release: by the Handler, by the store alone, and two
// requests to a Handler that refuses them after it has read their heads.
func BenchmarkPair(b *testing.B) {
	store := memstore.New()
	a := Handler(store, WithoutToken())
	defer a.Close()
	ask := func(path, text string) {
		r, err := http.NewRequestWithContext(b.Context(), http.MethodPost, path, strings.NewReader(text))
		if err != nil {
			b.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		a.ServeHTTP(&recorder{header: http.Header{}}, r)
	}
	n := 0
	b.Run("http", func(b *testing.B) {
		for b.Loop() {
			n++
			token := fmt.Sprintf("token-%020d", n)
			ask("/v1/acquire", body(token))
			ask("/v1/release", body(token))
		}
	})
	b.Run("store", func(b *testing.B) {
		for b.Loop() {
			n++
			token := fmt.Sprintf("token-%020d", n)
			_, _ = store.Acquire(b.Context(), driver.Request{Name: "b", Token: driver.TokenOf(token), TTL: time.Second})
			_, _ = store.Release(b.Context(), "b", token, 0)
		}
	})
	b.Run("refused", func(b *testing.B) {
		for b.Loop() {
			ask("/v1/acquire", `{}`)
			ask("/v1/release", `{}`)
		}
	})
}
