package redisstore_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/driver/fast"
	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/stores/redisstore"
)

// extensions takes n names and returns what extends their leases by a minute.
func extensions(t *testing.T, s *redisstore.Store, n int) (all []fast.Extension) {
	t.Helper()
	for i := range n {
		r := request(fmt.Sprint("hold ", i))
		r.TTL = 30 * time.Second // which a slow machine may need for 300 holds
		take(t, s, r)
		all = append(all, fast.Extension{Name: r.Name, Token: r.Token, TTL: 55 * time.Second})
	}
	return all
}

// TestBatchCountsRequests extends 300 leases with three requests. On a server that has forgotten
// its scripts, each request is repeated, and the text of the script is sent once.
func TestBatchCountsRequests(t *testing.T) {
	t.Parallel()
	bothLayouts(t, func(t *testing.T, s *redisstore.Store, srv *server.Server) {
		all := extensions(t, s, 300)
		if _, err := s.ExtendBatch(t.Context(), all); err != nil {
			t.Fatal(err)
		}
		for what, most := range map[string]int64{"": 3, "SCRIPT FLUSH": 7} {
			if what != "" {
				ask(t, srv, "SCRIPT", "FLUSH", "SYNC")
			}
			before := commands(t, srv)
			out, err := s.ExtendBatch(t.Context(), all)
			if n := commands(t, srv) - before; err != nil || n > most {
				t.Fatalf("%s: %d requests, %v", what, n, err)
			}
			for i, e := range out {
				if e.Err != nil || e.Grant.TTL < 50*time.Second || e.Grant.Fence == 0 {
					t.Fatalf("%s: hold %d: %+v", what, i, e)
				}
			}
		}
	})
}

// TestBatchWithTrouble: names of other types, lost holds and shared holds stand in one batch, and
// each has its own answer.
func TestBatchWithTrouble(t *testing.T) {
	t.Parallel()
	srv := server.Redis(t, server.RedisOptions{})
	s := opened(t, srv.Addr())
	all := extensions(t, s, 6)
	ask(t, srv, "DEL", all[1].Name)
	ask(t, srv, "RPUSH", all[1].Name, "a list")
	ask(t, srv, "DEL", all[2].Name)
	free(t, s, driver.Request{Name: all[3].Name, Token: all[3].Token})
	reader := reading(request("shared"))
	take(t, s, reader)
	all[4] = fast.Extension{Name: reader.Name, Token: reader.Token, TTL: 57 * time.Second}
	note := companion(t, rawClient(t, single(srv.Addr())), "f", all[5].Name)
	ask(t, srv, "DEL", note)
	ask(t, srv, "RPUSH", note, "a list")
	out, err := s.ExtendBatch(t.Context(), all)
	if err != nil {
		t.Fatal(err)
	}
	wantIs(t, out[5].Err, driver.ErrInvalid, "a note that is a list")
	wantIs(t, out[1].Err, driver.ErrInvalid, "a list")
	wantIs(t, out[2].Err, driver.ErrLost, "a key that was deleted")
	wantIs(t, out[3].Err, driver.ErrLost, "a hold that was released")
	for _, i := range []int{0, 4} {
		if out[i].Err != nil || out[i].Grant.TTL < 50*time.Second {
			t.Errorf("hold %d: %+v", i, out[i])
		}
	}
}

// TestBatchInCluster extends leases in many slots of three nodes.
func TestBatchInCluster(t *testing.T) {
	t.Parallel()
	nodes := server.RedisCluster(t)
	opened, err := fromURL("redis+cluster://" + nodes[0].Addr())(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { opened.Close() })
	s := opened.(*redisstore.Store)
	all := extensions(t, s, 50)
	for i := range 20 {
		all = append(all, fast.Extension{Name: fmt.Sprint("nobody's ", i), Token: driver.TokenOf(newToken()), TTL: 55 * time.Second})
	}
	out, err := s.ExtendBatch(t.Context(), all)
	if err != nil {
		t.Fatal(err)
	}
	for i, e := range out[:50] {
		if e.Err != nil || e.Grant.TTL < 50*time.Second {
			t.Errorf("hold %d: %+v", i, e)
		}
	}
	for _, e := range out[50:] {
		wantIs(t, e.Err, driver.ErrLost, "a hold that never was")
	}
}

// TestABatchAllocatesLittle: the keys of a hold share their memory, because renewals are most of
// the work of a process with many idle holds.
func TestABatchAllocatesLittle(t *testing.T) {
	s := opened(t, server.Redis(t, server.RedisOptions{}).Addr())
	holds := extensions(t, s, 128)
	n := testing.AllocsPerRun(20, func() {
		out, err := s.ExtendBatch(t.Context(), holds)
		if err == nil {
			err = out[0].Err
		}
		if err != nil {
			t.Fatal(err)
		}
	})
	if n > 5*float64(len(holds)) {
		t.Errorf("%v allocations for %d holds", n, len(holds))
	}
}

// TestBatchAfterTheLossOfAll: a server that has lost all its data is asked about several holds with
// one request, and every hold has its answer.
func TestBatchAfterTheLossOfAll(t *testing.T) {
	t.Parallel()
	bothLayouts(t, func(t *testing.T, s *redisstore.Store, srv *server.Server) {
		all := extensions(t, s, 300)
		ask(t, srv, "FLUSHALL")
		for _, most := range []int64{46, 22} { // the first time, the server does not know the scripts
			before := commands(t, srv)
			out, err := s.ExtendBatch(t.Context(), all)
			if n := commands(t, srv) - before; err != nil || n > most {
				t.Fatalf("%d requests, want at most %d: %v", n, most, err)
			}
			for i, e := range out {
				if !errors.Is(e.Err, driver.ErrLost) {
					t.Fatalf("hold %d: %+v", i, e)
				}
			}
		}
	})
}
