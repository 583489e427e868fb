package redisstore_test

import (
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/stores/redisstore"
)

// failedScripts counts the scripts that ended with an error.
func failedScripts(t *testing.T, srv *server.Server) (n int) {
	t.Helper()
	said := ask(t, srv, "INFO", "everything")
	for pattern, sign := range map[string]int{
		`cmdstat_eval:.*failed_calls=(\d+)`: 1, `cmdstat_evalsha:.*failed_calls=(\d+)`: 1, `errorstat_NOSCRIPT:count=(\d+)`: -1,
	} {
		if m := regexp.MustCompile(pattern).FindStringSubmatch(said); m != nil {
			k, err := strconv.Atoi(m[1])
			if err != nil {
				t.Fatal(err)
			}
			n += sign * k
		}
	}
	return n
}

// A waiter that gets the gate of permits on a server without memory looks at the permits there, and
// no request is refused: the waiter has its place in the queue already.
func TestGateWithoutMemory(t *testing.T) {
	t.Parallel()
	for layout, opts := range map[string][]redisstore.Option{"set": nil, "string": {redisstore.PlainStrings()}} {
		t.Run(layout, func(t *testing.T) {
			t.Parallel()
			srv := server.Redis(t, server.RedisOptions{})
			s, other := opened(t, srv.Addr(), opts...), opened(t, srv.Addr(), opts...)
			r := request("job")
			if _, _, err := s.AcquireSlot(t.Context(), r, 1, false); err != nil {
				t.Fatal(err)
			}
			first, second := awaitsPermit(t, srv, other, "job", 1), awaitsPermit(t, srv, other, "job", 1)
			ask(t, srv, "CONFIG", "SET", "maxmemory", "1")
			r.Name = driver.SlotName("job", 0)
			free(t, s, r)
			if a := <-first.done; a.err != nil {
				t.Fatal(a.err)
			}
			<-time.After(200 * time.Millisecond) // the second waiter has the gate, and looks
			if n := failedScripts(t, srv); n != 0 {
				t.Errorf("the server refused %d requests", n)
			}
			second.cancel()
			<-second.done
		})
	}
}
